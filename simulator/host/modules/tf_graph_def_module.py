"""Frozen TensorFlow graphs as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.modules.framework_module import FrameworkModule


class TFGraphDefModule(FrameworkModule):
    """A `GraphDef`; its placeholders are the inputs, in the order of the graph."""

    framework = "graphdef"
    takes_whole_inputs = True

    def __init__(self, name: str, module: Any, path: str = "", output_names: Sequence[str] = ()) -> None:
        """`output_names` are those that the graph leaves unread, and must be. Raises PyBudaError."""
        super().__init__(name, module)
        self.path, self.output_names = path, list(output_names)
        if not hasattr(module, "node"):
            self.refuse("a tf.compat.v1.GraphDef", type(module).__name__)

    def export(self, inputs: Sequence[np.ndarray]) -> ExportResult:
        """Lowers the graph by TensorFlow's bridge to XLA."""
        from opscope.models.frontends.base import Source
        from opscope.models.frontends.graphdef import FRONTEND
        from opscope.models.frontends.through_tf import graph_def

        open_ones = [node.name for node in self.module.node if node.op == "Placeholder"]
        shapes = {name: x.shape for name, x in zip(open_ones, inputs, strict=False)}
        built = graph_def.as_function(self.module, self.path or self.name, shapes)
        return FRONTEND.export(built, Source("forward", self.path, "float32"))
