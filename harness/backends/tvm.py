"""TVM on this machine's processor: imports an op's ONNX graph as Relax, builds it with LLVM and runs it."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from importlib import import_module, metadata
from typing import Any

import numpy as np

from opscope.base.installing import install_missing
from opscope.harness.backends.base import Backend, Job, StageError, Target, climb_smallest, exact_host
from opscope.harness.backends.translated import onnx_graph
from opscope.harness.backends.warm_runs import timed
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

IMPORT, BUILD = Stage("import"), Stage("build")
_TARGET = "llvm"


class Tvm(Backend):
    """TVM's LLVM code in its virtual machine, on one thread, for the ops that ONNX can say (`onnx_nodes.py`)."""

    name = "tvm"
    packages = "apache-tvm"
    beside = "onnx"
    lasting = True
    ignores_board = True
    stages = (IMPORT, BUILD, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return replace(exact_host(self.name, options), sums_in_own_type=True)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """Its version, that of ONNX, which writes the graphs, and the target."""
        return f"tvm-{metadata.version('apache-tvm')} onnx-{metadata.version('onnx')} {_TARGET}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Imports, builds or runs. Raises StageError with its own message, Declined for what ONNX cannot say."""
        graph = onnx_graph(job.module) if stage is IMPORT else b""
        try:
            if stage is IMPORT:
                model = import_module("onnx").load_from_string(graph)
                job.state[stage] = _tvm("relax.frontend.onnx").from_onnx(model)
            elif stage is BUILD:
                job.state[stage] = _tvm().compile(job.state[IMPORT], target=_TARGET)
                if job.ir_dir is not None:
                    (job.ir_dir / "relax.txt").write_text(str(job.state[IMPORT]), encoding="utf-8")
            else:
                main = _tvm("relax").VirtualMachine(job.state[BUILD], _tvm().cpu())["main"]
                values = [_tvm().runtime.tensor(array) for array in job.inputs]
                job.outputs = [np.array(main(*values).numpy())]
                job.ran_on = "host"
                job.run_ns, job.run_spread_ns = timed(lambda: main(*values))
        except Exception as error:
            text = str(error).strip() or type(error).__name__
            last = next(line for line in reversed(text.splitlines()) if line.strip())
            raise StageError(last.strip(), text) from error

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Runs one small op, which loads the library."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if it is installed, with ONNX."""
        return install_missing("tvm", "onnx", "tvm")


@cache
def _tvm(part: str = "") -> Any:
    """TVM, or a part of it; it reads how many threads it may have when it is loaded."""
    os.environ.setdefault("TVM_NUM_THREADS", "1")
    return import_module(f"tvm.{part}" if part else "tvm")
