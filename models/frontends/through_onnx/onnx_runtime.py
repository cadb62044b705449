"""What ONNX Runtime computes of a graph, beside the standard's reference: a second framework for the same file.

`opscope.models.frontends.through_onnx.onnx_runtime:write` does so in a process of its own, where the reference
contradicts an import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from opscope.base.children.inside import Parent
from opscope.base.installing import install_command
from opscope.models import frontends
from opscope.models.frontends import child, own_results
from opscope.models.frontends.base import NoOwnResults
from opscope.models.frontends.own_results_child import value_of

ERRORS_ONLY = 3
"""ONNX Runtime's log level: its warnings are about graphs that could be simpler."""


def write(parent: Parent) -> None:
    """Does the task of `own_results_child.run`, and writes as that does."""
    task = parent.task()
    framework, folder, cap = task.pop("framework"), Path(task.pop("folder")), task.pop("cap")
    sources, module = task.pop("sources"), Path(task.pop("module"))
    specs = child.read(module).arguments

    def results() -> tuple[str, Sequence[Any]]:
        model = frontends.get(framework).build(child.source_of(task)).proto
        return computed(model, {spec.name: value_of(spec, place) for spec, place in zip(specs, sources, strict=True)})

    own_results.write(folder, results, specs, cap, None)


def computed(model: ModelProto, inputs: Mapping[str, np.ndarray]) -> tuple[str, Sequence[Any]]:
    """Its name with the version, and the results on `inputs`.

    Raises NoOwnResults where it is not installed, else what it raises for a graph that it does not take.
    """
    if util.find_spec("onnxruntime") is None:
        raise NoOwnResults(f"ONNX Runtime is not installed ({install_command('onnx')})")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return f"ONNX Runtime {onnxruntime.__version__}", session.run(None, dict(inputs))
