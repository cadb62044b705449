"""The base of modules that wrap a framework's model: its exporter turns the live object into StableHLO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec
from opscope.models.frontends import install
from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.errors import in_one_line
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.modules.module import Module

NEEDS = {
    "torch": ("torch", "torchax"),
    "keras": ("keras",),
    "tf": ("tensorflow",),
    "graphdef": ("tensorflow",),
    "onnx": ("onnx", "torch_mlir"),
    "tflite": ("tensorflow", "tf2onnx", "onnx", "torch_mlir"),
}
"""Frontend -> the Python packages that it imports."""


class FrameworkModule(Module):
    """A wrapper; a subclass says which framework it is, and how its model is exported."""

    framework = ""
    """The name of the frontend."""

    def __init__(self, name: str, module: Any) -> None:
        """Raises PyBudaError if the framework is not installed."""
        super().__init__(name)
        self.module = module
        self.input_names: tuple[str, ...] = ()
        """Names of the inputs, once they were given by name."""
        if lacking := [package for package in NEEDS[self.framework] if find_spec(package) is None]:
            self.refuse(f"{', '.join(NEEDS[self.framework])}", f"none of {lacking[0]}; try {install(self.framework)}")

    def ordered(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Returns inputs by name in the order in which they were given first. Raises PyBudaError for others."""
        if self.input_names and set(self.input_names) != set(inputs):
            self.refuse(f"the inputs {', '.join(self.input_names)}", ", ".join(map(str, inputs)))
        self.input_names = self.input_names or tuple(map(str, inputs))
        return [inputs[name] for name in self.input_names]

    def export(self, inputs: Sequence[np.ndarray]) -> ExportResult:
        """Returns what the framework's exporter makes of it for inputs like these."""
        raise NotImplementedError(f"{type(self).__name__}.export")

    def exported(self, inputs: Sequence[np.ndarray]) -> Exported:
        """Exports it. Raises PyBudaError for whatever the framework raises."""
        with in_one_line(self.name):
            result = self.export(inputs)
        lacking = [spec.name for spec in result.arguments if spec.role != "input" and spec.name not in result.values]
        if lacking:
            self.refuse("a value of each weight", f"none of {lacking[0]}")
        values = {name: np.asarray(value) for name, value in result.values.items()}
        return Exported(self.name, result.bytecode, result.arguments, values)


def input_specs(inputs: Sequence[np.ndarray], names: Sequence[str] = (), narrow: bool = True) -> tuple[ArgSpec, ...]:
    """Describes inputs; `narrow` makes 32 bits of 64, as JAX does."""
    from opscope.simulator.host.modules.py_buda_module import traced_type

    return tuple(
        ArgSpec(
            names[i] if names else f"input_{i}", x.shape, traced_type(x.dtype) if narrow else x.dtype.name, "", "input"
        )
        for i, x in enumerate(inputs)
    )
