"""OpenVINO on this machine's processor: reads an op's ONNX graph, compiles it and infers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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

READ, COMPILE = Stage("read-model"), Stage("compile-model")
_DEVICE = "CPU"
_ASKED = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY"}
"""One thread, and no narrower type than the model's own unasked."""
_NO_LAYERS = frozenset({"Input", "Output", "Const"})
_PLACES = (
    "Exception from",
    "Check '",
    "FrontEnd API failed",
    "Model wasn't fully converted",
    "-- ",
    "While validating",
)


class OpenVino(Backend):
    """OpenVINO's CPU plugin, on one thread, for the ops that ONNX can say (`onnx_nodes.py`)."""

    name = "openvino"
    packages = "openvino"
    beside = "onnx"
    lasting = True
    ignores_board = True
    stages = (READ, COMPILE, Stage.RUN)

    def target(self, options: ResultOptions) -> Target:
        """The host in exact IEEE arithmetic. Raises InputError if the options ask for a device's number formats."""
        return exact_host(self.name, options)

    def fingerprint(self, options: ResultOptions | None = None) -> str:
        """Its version, that of ONNX, which writes the graphs, and what it is asked for."""
        asked = " ".join(f"{name}={value}" for name, value in _ASKED.items())
        return f"openvino-{metadata.version('openvino')} onnx-{metadata.version('onnx')} {asked}"

    def climb(self, stage: Stage, job: Job) -> None:
        """Reads, compiles or infers. Raises StageError with its own message, Declined for what ONNX cannot say."""
        graph = onnx_graph(job.module) if stage is READ else b""
        try:
            if stage is READ:
                job.state[stage] = _core().read_model(model=graph)
            elif stage is COMPILE:
                job.state[stage] = _core().compile_model(job.state[READ], _DEVICE, _ASKED)
            else:
                compiled = job.state[COMPILE]
                results = compiled(job.inputs)
                job.outputs = [np.array(results[number]) for number in range(len(compiled.outputs))]
                job.ran_on = "host"
                job.run_ns, job.run_spread_ns = timed(lambda: compiled(job.inputs))
        except Exception as error:
            raise _refusal(error) from error

    def structure(self, job: Job) -> Mapping[str, int]:
        """The layers that it runs, by kind: a `Subgraph` is several ops in one kernel."""
        layers = [
            node.get_rt_info()["layerType"].astype(str) for node in job.state[COMPILE].get_runtime_model().get_ops()
        ]
        return Counter(layer for layer in layers if layer not in _NO_LAYERS)

    def warm_up(self, options: ResultOptions | None = None) -> None:
        """Runs one small op, which loads the library and its plugin."""
        climb_smallest(self)

    def available(self) -> str | None:
        """Returns None if it is installed, with ONNX."""
        return install_missing("openvino", "onnx", "openvino")


def _refusal(error: Exception) -> StageError:
    """Its own words: the first line that says more than where in its source something was checked."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(_PLACES)]
    return StageError((said or lines or [type(error).__name__])[0], str(error))


@cache
def _core() -> Any:
    return import_module("openvino").Core()
