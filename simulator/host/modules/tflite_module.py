"""TFLite files as modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.modules import export_in_child
from opscope.simulator.host.modules.framework_module import FrameworkModule


class TFLiteModule(FrameworkModule):
    """A `.tflite` file."""

    framework = "tflite"
    takes_whole_inputs = True

    def __init__(self, name: str, module: Any, tflite_path: str = "") -> None:
        """The file at `tflite_path` counts; `module` may be the interpreter of it. Raises PyBudaError."""
        super().__init__(name, module)
        self.tflite_path = tflite_path or (module if isinstance(module, str) else "")
        if not Path(self.tflite_path).is_file():
            self.refuse("the path of a .tflite file", repr(tflite_path))

    def export(self, inputs: Sequence[np.ndarray]) -> ExportResult:
        """Lowers the file in a process of its own: tf2onnx makes ONNX of it, torch-mlir StableHLO."""
        return export_in_child.export(self.name, self.framework, Path(self.tflite_path), {})
