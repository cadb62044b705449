"""ONNX Runtime on this machine's processor: makes a session of an op's ONNX graph, and runs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.installing import install_missing
from opscope.harness.backends.base import Backend, Job, StageError, Target, climb_smallest, exact_host
from opscope.harness.backends.translated import onnx_graph
from opscope.harness.backends.warm_runs import timed
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import Stage

SESSION = Stage("session")
_ERRORS_ONLY = 3
_OPTIMISED = "optimised.onnx"


class OnnxRuntime(Backend):
    """ONNX Runtime's processor provider, on one thread, for the ops that ONNX can say (`onnx_nodes.py`)."""

    name = "onnxruntime"
    packages = "onnxruntime"
    beside = "onnx"
    lasting = True
    ignores_board = True
    stages = (SESSION, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return exact_host(self.name, options)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """Its version, and that of ONNX, which writes the graphs."""
        return f"onnxruntime-{metadata.version('onnxruntime')} onnx-{metadata.version('onnx')}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Makes the session, or runs it. Raises StageError with its own message, Declined for what ONNX cannot say."""
        if stage is SESSION:
            job.state[stage] = _session(onnx_graph(job.module), job.ir_dir and job.ir_dir / _OPTIMISED)
            return
        session = job.state[SESSION]
        feed = {put.name: array for put, array in zip(session.get_inputs(), job.inputs, strict=True)}
        try:
            job.outputs = [np.asarray(result) for result in session.run(None, feed)]
        except Exception as error:
            raise _refusal(error) from error
        job.ran_on = "host"
        job.run_ns, job.run_spread_ns = timed(lambda: session.run(None, feed))

    def structure(self, job: Job) -> Mapping[str, int]:
        """The nodes of the graph that it runs, by type: those of its own fusions as `com.microsoft.Gelu`."""
        file = job.ir_dir and job.ir_dir / _OPTIMISED
        if file is None or not file.is_file():
            return {}
        nodes = import_module("onnx").load(file, load_external_data=False).graph.node
        return Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in nodes)

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Runs one small op, which loads the library."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if it is installed, with ONNX."""
        return install_missing("onnxruntime", "onnx", "onnxruntime")


def _session(graph: bytes, optimised: Path | None) -> Any:
    """Raises StageError for a graph that it does not take: an op of a type that it has no kernel for.

    What it makes of the graph is written to `optimised`.
    """
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    if optimised is not None:
        options.optimized_model_filepath = str(optimised)
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> StageError:
    """Its own words without the code in front: `[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : ...`."""
    text = str(error)
    return StageError(text.partition("\n")[0].split(" : ", 2)[-1].strip(), text)
