"""TorchInductor on this machine's processor: PyTorch's own compiler traces an op, writes C++ of it and runs that."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from importlib import import_module, metadata
from typing import Any

from opscope.base.installing import install_missing
from opscope.harness.backends.base import Backend, Declined, Job, StageError, Target, climb_smallest, exact_host
from opscope.harness.backends.warm_runs import timed
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

DYNAMO, INDUCTOR = Stage("dynamo"), Stage("inductor")
_COMPILERS = ("g++", "clang++")


class Inductor(Backend):
    """What `torch.compile` does, step by step on one thread, for the ops that PyTorch can say (`torch_calls.py`)."""

    name = "inductor"
    packages = "torch"
    lasting = True
    ignores_board = True
    scratch_bytes = 400 << 20
    stages = (DYNAMO, INDUCTOR, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return exact_host(self.name, options)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """Its version, and what the C++ compiler that it calls says of its own."""
        done = subprocess.run([_compiler() or "false", "--version"], capture_output=True, text=True, check=False)
        return f"inductor-{metadata.version('torch')} {done.stdout.partition(chr(10))[0]}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Traces, compiles or runs. Raises StageError with its own message, Declined for what PyTorch cannot say."""
        try:
            if stage is DYNAMO:
                call, arguments = _calls().call_of(job.module)
                graph = call
                for strict in (False, True):  # what we say becomes a program of ATen's calls, which Dynamo traces
                    graph = _torch("export").export(graph, tuple(arguments), strict=strict).module()
                job.state[stage] = graph, arguments
                if job.ir_dir is not None:
                    (job.ir_dir / "dynamo.txt").write_text(str(graph.graph), encoding="utf-8")
            elif stage is INDUCTOR:
                compiling = import_module("torch._inductor.utils").run_and_get_code
                compiled, sources = compiling(_torch("_inductor").compile, *job.state.pop(DYNAMO))
                job.state[stage] = compiled
                if job.ir_dir is not None:
                    (job.ir_dir / "inductor.txt").write_text("\n".join(sources), encoding="utf-8")
            else:
                compiled, values = job.state[INDUCTOR], [_calls().to_torch(array) for array in job.inputs]
                job.outputs = [_calls().to_numpy(result) for result in compiled(*values)]
                job.ran_on = "host"
                job.run_ns, job.run_spread_ns = timed(lambda: compiled(*values))
        except Exception as error:
            raise _refusal(error) from error

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Compiles and runs one small op, which loads the library and compiles the header that all programs share."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if PyTorch is installed, and a C++ compiler."""
        return install_missing("inductor", "torch") or (
            None if _compiler() else "install g++, which compiles what it writes"
        )


def _compiler() -> str:
    """The C++ compiler that it calls; empty if there is none."""
    return os.environ.get("CXX") or next(filter(shutil.which, _COMPILERS), "")


def _refusal(error: Exception) -> Exception:
    """Its own words: the first line, without the name of the step that failed in front."""
    cause: BaseException | None = error
    while cause is not None:  # a row that is traced declines inside of it
        if isinstance(cause, Declined):
            return cause
        cause = cause.__cause__ or cause.__context__
    text = str(error).strip() or type(error).__name__
    return StageError(text.partition("\n")[0], text)


@cache
def _torch(part: str = "") -> Any:
    """PyTorch, or a part of it, on one thread; compiling too, without processes of its own."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    torch = import_module("torch")
    torch.set_num_threads(1)
    return import_module(f"torch.{part}") if part else torch


@cache
def _calls() -> Any:
    _torch()
    return import_module("opscope.harness.backends.translated.torch_calls")
