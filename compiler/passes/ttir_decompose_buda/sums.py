"""Arithmetic that replaces an op: each method adds an op before it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, TensorType
from xdsl.ir import Operation, SSAValue

from opscope.compiler.buda.graph import NodeKind
from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_canonicalization import broadcast
from opscope.compiler.dialects.ttir_values import element, full, like, make, shape_of
from opscope.compiler.translations.ttir_to_graph.hosts import host_kind
from opscope.compiler.translations.ttir_to_graph.movements import LOWERINGS

AMPLIFIER = 2.0**126


class Sums:
    """Adds arithmetic before an op: each method adds an op and returns its result."""

    def __init__(self, op: RowOp, on_host: dict[SSAValue, NodeKind]) -> None:
        self.op, self.on_host = op, on_host
        kind = op.results[0].type
        assert isinstance(kind, TensorType)
        operand = op.operands[0] if op.operands else op.results[0]
        source = kind if floats(op.results[0]) else operand.type
        assert isinstance(source, TensorType)
        element = source.element_type if not hasattr(source.element_type, "width") else Float32Type()
        self.kind = TensorType(element, kind.get_shape())

    def do(self, name: str, *operands: SSAValue) -> SSAValue:
        """Adds an elementwise op."""
        new_op = make(name, operands, self.kind, self.op)
        return self.put(new_op)

    def put(self, new_op: Operation) -> SSAValue:
        """Adds an op that already exists."""
        block = self.op.parent
        assert block is not None
        block.insert_op_before(new_op, self.op)
        kind = host_kind(new_op, self.on_host)
        if kind is not None:
            self.on_host[new_op.results[0]] = kind
        return new_op.results[0]

    def number(self, value: float) -> SSAValue:
        """Returns a tensor filled with one number."""
        shape = self.kind.get_shape()
        constant = self.put(full((1,) * len(shape), self.kind.element_type, value, self.op))
        if all(size == 1 for size in shape):
            return constant
        return self.put(broadcast(constant, shape, self.op))

    def read(self, index: int) -> SSAValue:
        """Returns an operand; a truth value as a number."""
        value = self.op.operands[index]
        return self.spread(value if floats(value) else self._as_number(value))

    def spread(self, value: SSAValue) -> SSAValue:
        """Returns a number by itself as a tensor of the op's shape; a tensor as it is."""
        shape = list(self.kind.get_shape())
        if shape_of(value) or not shape:
            return value
        ones = TensorType(element(value), [1] * len(shape))
        single = self.put(make("reshape", [value], ones, self.op, shape=tuple(ones.get_shape())))
        return single if all(n == 1 for n in shape) else self.put(broadcast(single, shape, self.op))

    def retyped(self) -> SSAValue | None:
        """Repeats a movement of truth values on the numbers that replaced them; returns None for any other op."""
        op, result = self.op, self.op.results[0]
        if op.ROW.ttir not in LOWERINGS or floats(result) or not any(floats(value) for value in op.operands):
            return None
        moved = [value if str(element(value)) != "i1" else self._as_number(value) for value in op.operands]
        return self.put(make(op.ROW.ttir, moved, self.kind, op, **op.read()))

    def _as_number(self, value: SSAValue) -> SSAValue:
        return self.put(make("typecast", [value], TensorType(self.kind.element_type, shape_of(value)), self.op))

    def move(self, name: str, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Adds a reshape or broadcast to a shape, unless the value has it."""
        if tuple(shape_of(value)) == tuple(shape):
            return value
        if name == "broadcast":
            return self.put(broadcast(value, list(shape), self.op))
        return self.put(make(name, [value], like(value, shape), self.op, shape=tuple(shape)))

    def amplified(self, first: int, second: int) -> SSAValue:
        """Returns the difference of two operands, multiplied so much that it is never a fraction."""
        return self.do("multiply", self.do("subtract", self.read(first), self.read(second)), self.number(AMPLIFIER))

    def less(self, value: SSAValue) -> SSAValue:
        """Returns one minus the value."""
        return self.do("subtract", self.number(1), value)

    def negative(self, value: SSAValue) -> SSAValue:
        """Returns the value with the opposite sign."""
        return self.do("multiply", value, self.number(-1))


def floats(value: SSAValue) -> bool:
    """Whether a value's elements are floats."""
    assert isinstance(value.type, TensorType)
    return not hasattr(value.type.element_type, "width") or str(value.type.element_type).startswith(("f", "bf"))
