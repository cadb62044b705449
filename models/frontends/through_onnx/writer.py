"""Writes the ONNX nodes that replace one ONNX node, with names, constants and slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper


@dataclass
class Scope:
    """Shapes, types and constants of the graph around the node."""

    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, int]
    """Value -> ONNX element type."""
    constants: Mapping[str, np.ndarray]
    """Values that the graph itself fixes."""
    opset: int = 0
    """The version of the standard."""


@dataclass
class Writer:
    """Collects the nodes and the constants that stand in for `node`."""

    node: NodeProto
    scope: Scope
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def attributes(self) -> dict[str, Any]:
        """The node's attributes as Python values, texts decoded."""
        values = {a.name: helper.get_attribute_value(a) for a in self.node.attribute}

        def text(value: Any) -> Any:
            return value.decode() if isinstance(value, bytes) else value

        return {k: [text(x) for x in v] if isinstance(v, list) else text(v) for k, v in values.items()}

    def has(self, index: int) -> bool:
        """Whether the optional input is there."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def input(self, index: int) -> str:
        """The name of an input."""
        return self.node.input[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of an input. Raises ValueError if it is not fixed."""
        name = self.input(index)
        if name not in self.scope.shapes:
            raise self.refusal("a fixed shape", f"none known of {name!r}")
        return self.scope.shapes[name]

    def constant_input(self, index: int) -> np.ndarray:
        """The value of an input that must be a constant. Raises ValueError if it is not."""
        name = self.input(index)
        if name not in self.scope.constants:
            raise self.refusal("a constant", f"{name!r}, which is computed")
        return self.scope.constants[name]

    def known(self, index: int) -> np.ndarray | None:
        """The value of an input if the graph fixes it, else None."""
        return self.scope.constants.get(self.input(index))

    def element(self, index: int) -> int:
        """The ONNX element type of an input; float32 if it is unknown."""
        return self.scope.types.get(self.input(index), TensorProto.FLOAT)

    def refusal(self, expected: str, got: str) -> ValueError:
        """The error for an unsupported form of this node."""
        return ValueError(f"node {self.node.name!r} ({self.node.op_type}): expected {expected}, got {got}")

    def op(self, kind: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """A node with one result."""
        names = list(outputs) or [f"{self._base}/{len(self.nodes)}"]
        # The expanded node's own name: the place that locations show.
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=self.node.name, **attributes))
        return names[0]

    @property
    def _base(self) -> str:
        return f"{next(o for o in self.node.output if o)}/expanded"

    def constant(self, value: np.ndarray, element: int | None = None) -> str:
        """A constant, in its own type or in the ONNX type `element`."""
        name = f"{self._base}/c{len(self.constants)}"
        kind: Any = value.dtype if element is None else helper.tensor_dtype_to_np_dtype(element)
        tensor = numpy_helper.from_array(np.ascontiguousarray(value.astype(kind)).reshape(value.shape), name)
        self.constants.append(tensor)
        return name

    def ints(self, values: Sequence[int]) -> str:
        """A constant list of integers."""
        return self.constant(np.asarray(values, np.int64))

    def zeros(self, shape: Sequence[int]) -> str:
        """Zeros of the type of the node's first input."""
        return self.constant(np.zeros(shape, np.float32), self.element(0))

    def part(self, x: str, axis: int, start: int, stop: int, squeeze: bool = False) -> str:
        """`x` from start to stop along an axis; `squeeze`: without that axis."""
        out = self.op("Slice", x, self.ints([start]), self.ints([stop]), self.ints([axis]))
        return self.op("Squeeze", out, self.ints([axis])) if squeeze else out

    def finish(self, index: int, value: str) -> None:
        """Gives the node's result of that number its name; an unused result is left out."""
        if index < len(self.node.output) and self.node.output[index]:
            self.op("Identity", value, outputs=[self.node.output[index]])
