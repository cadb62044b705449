"""ONNX graphs as modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.base.temporary_folder import TemporaryFolder
from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.modules import export_in_child
from opscope.simulator.host.modules.framework_module import FrameworkModule


class OnnxModule(FrameworkModule):
    """An `onnx.ModelProto`."""

    framework = "onnx"
    takes_whole_inputs = True

    def __init__(self, name: str, module: Any, onnx_path: str) -> None:
        """`onnx_path` is the file that the graph came from, for messages. Raises PyBudaError."""
        super().__init__(name, module)
        self.onnx_path = onnx_path
        if not hasattr(module, "graph"):
            self.refuse("an onnx.ModelProto", type(module).__name__)

    def export(self, inputs: Sequence[np.ndarray]) -> ExportResult:
        """Lowers the graph by torch-mlir's importer, in a process of its own."""
        weights = {initializer.name for initializer in self.module.graph.initializer}
        names = [value.name for value in self.module.graph.input if value.name not in weights]
        shapes = {name: x.shape for name, x in zip(names, inputs, strict=False)}
        with TemporaryFolder("onnx") as folder:
            path = Path(folder) / "module.onnx"
            path.write_bytes(self.module.SerializeToString())
            return export_in_child.export(self.name, self.framework, path, shapes)
