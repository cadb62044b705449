"""The interface of patterns: the op that is replaced, and methods that emit ttir ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    f32,
    i32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from opscope.compiler.dialects import ttir
from opscope.compiler.dialects.from_row import element_of, write_attrs
from opscope.compiler.dialects.stablehlo import SpecAttr
from opscope.compiler.errors import StageFailure
from opscope.compiler.ir.context import context
from opscope.compiler.ir.functions import SOURCE, functions
from opscope.compiler.ops.element_text import element_text
from opscope.compiler.ops.row import TABLE
from opscope.compiler.ops.shapes import Shape, shape_of

if TYPE_CHECKING:
    from opscope.compiler.passes.stablehlo_to_ttir.regions import Functions

STAGE = "stablehlo-to-ttir"
Pattern = Callable[["Emit"], "SSAValue | Sequence[SSAValue]"]
PATTERNS: dict[str, Pattern] = {}
"""Full StableHLO op name -> the function that writes it in ttir."""


NAMED: dict[str, Callable[[Emit], SSAValue | Sequence[SSAValue] | None]] = {}
"""Full StableHLO op name -> the function that writes it as tt-mlir's named op; None where tt-mlir has none for it."""


def named(*names: str) -> Callable[[Any], Any]:
    """Decorator for a function that writes these ops in tt-mlir's words."""

    def note(pattern: Any) -> Any:
        for name in names:
            NAMED[name] = pattern
        return pattern

    return note


def lowers(*names: str) -> Callable[[Pattern], Pattern]:
    """Decorator for a function that lowers these ops."""

    def note(pattern: Pattern) -> Pattern:
        PATTERNS.update(dict.fromkeys(names, pattern))
        return pattern

    return note


@dataclass
class Emit:
    """Appends ttir ops to a block, in place of one StableHLO op."""

    op: Operation
    operands: list[SSAValue]
    """The operands, already lowered."""
    block: Block
    functions: Functions | None = None
    """Collects the functions of the op's regions; None if the op has none."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """StableHLO value -> ttir value, for the whole function: regions may read any of them."""

    @property
    def result_type(self) -> Any:
        """Type of the op's first result."""
        return self.op.results[0].type

    @property
    def result_types(self) -> list[Any]:
        """Types of all results."""
        return [r.type for r in self.op.results]

    @property
    def result_shape(self) -> Shape:
        """Shape of the op's first result."""
        return shape_of(self.op.results[0])

    def attr(self, name: str) -> Any:
        """Returns an attribute of the StableHLO op; None if it is not set."""
        return self.op.attributes.get(name)

    def ints(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Returns an attribute of integers: an array, dense elements or a single one."""
        attr = self.attr(name)
        if attr is None:
            if default is None:
                raise self.refuse(f"expected attribute {name}, got none", "error")
            return tuple(default)
        if isinstance(attr, IntegerAttr):
            return (int(attr.value.data),)
        return tuple(int(v) for v in attr.get_values())

    def spec(self, name: str) -> SpecAttr:
        """Returns an attribute of the stablehlo dialect itself."""
        attr = self.attr(name)
        if not isinstance(attr, SpecAttr):
            raise self.refuse(f"expected attribute {name}, got {attr}", "error")
        return attr

    def refuse(self, message: str, kind: str = "notimpl") -> StageFailure:
        """Returns the StageFailure that refuses this op, to be raised."""
        return StageFailure(STAGE, self.op.name, message, kind=kind)

    def add_function(self, function: FuncOp) -> str:
        """Adds a function of scalars to the op's module, unless its like is there; returns its name."""
        module: Any = self.op
        while module.parent_op() is not None:
            module = module.parent_op()
        name, number = function.sym_name.data, 0
        there = {f.sym_name.data: f for f in functions(module)}
        while (other := there.get(function.sym_name.data)) is not None:
            if other.function_type == function.function_type and other.sym_name.data.startswith(name):
                return other.sym_name.data
            number += 1
            function.sym_name = StringAttr(f"{name}_{number}")
        module.body.block.add_op(function)
        return function.sym_name.data

    # --- emission
    def emit(self, name: str, operands: Sequence[SSAValue], result: Attribute, **attrs: Any) -> SSAValue:
        """Emits any ttir op with one result, by its row."""
        return self.emit_all(name, operands, [result], **attrs)[0]

    def emit_all(
        self, name: str, operands: Sequence[SSAValue], results: Sequence[Attribute], **attrs: Any
    ) -> list[SSAValue]:
        """Emits any ttir op by its row and returns all results."""
        cls = ttir.CLASSES[name]
        if name == "typecast" and self.functions is not None and self.functions.named:
            # As tt-mlir has it: what the program says is kept where it loses something, what the compiler adds is not.
            attrs = {"conservative_folding": self.op.name == "stablehlo.convert"} | attrs
        new_op = cls.create(
            operands=operands,
            result_types=results,
            properties=write_attrs(cls.ROW, attrs) if attrs else {},
            attributes={SOURCE: self.op.attributes[SOURCE]} if SOURCE in self.op.attributes else {},
            location=self.op.location,
        )
        self.block.add_op(new_op)
        return list(new_op.results)

    def foreign(
        self, name: str, operands: Sequence[SSAValue], results: Sequence[Attribute], **properties: Attribute
    ) -> list[SSAValue]:
        """Emits an op of tt-mlir's ttir with these attributes as they are; it may be one that no kernel computes."""
        assert TABLE.named("ttir", name) is not None, name
        cls = ttir.CLASSES.get(name) or context().get_op(f"ttir.{name}")
        new_op = cls.create(
            operands=operands,
            result_types=results,
            properties=properties,
            attributes={SOURCE: self.op.attributes[SOURCE]} if SOURCE in self.op.attributes else {},
            location=self.op.location,
        )
        self.block.add_op(new_op)
        return list(new_op.results)

    def topk(self, k: int) -> list[SSAValue]:
        """Returns the `k` largest elements of the first operand along its last dim, and their indices."""
        return self.emit_all("topk", self.operands[:1], self.result_types, k=k, dim=-1, largest=True, sorted=True)

    def like(self, value: SSAValue, shape: Shape) -> TensorType:
        """Returns the type of `value`'s elements in another shape."""
        kind: Any = value.type
        return TensorType(kind.element_type, shape)

    def permute(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Permutes `value`; returns it as it is if nothing moves."""
        if list(permutation) == sorted(permutation):
            return value
        shape = shape_of(value)
        result = self.like(value, tuple(shape[i] for i in permutation))
        return self.emit("permute", [value], result, permutation=permutation)

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshapes `value`; returns it as it is if the shape is the same."""
        if shape_of(value) == tuple(shape):
            return value
        return self.emit("reshape", [value], self.like(value, tuple(shape)), shape=shape)

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Repeats dims of size 1 to `shape`, of the same rank; returns `value` as it is if nothing repeats."""
        old = shape_of(value)
        if old == tuple(shape):
            return value
        factors = [new // n if n else 1 for n, new in zip(old, shape, strict=True)]
        return self.emit("broadcast", [value], self.like(value, tuple(shape)), broadcast_dimensions=factors)

    def typecast(self, value: SSAValue, element: Any) -> SSAValue:
        """Converts `value` to another element type; returns it as it is if it has that type."""
        if element_of(value) == element_text(element):
            return value
        return self.emit("typecast", [value], TensorType(element, shape_of(value)))

    def shared(self, value: SSAValue, name: str, shape: Sequence[int], **attrs: Any) -> SSAValue:
        """Emits a movement of `value`, or returns the result of the same one from before."""
        properties = write_attrs(ttir.CLASSES[name].ROW, attrs)
        for use in value.uses:
            op = use.operation
            if op.name == f"ttir.{name}" and op.properties == properties and op.parent is self.block:
                return op.results[0]
        return self.emit(name, [value], self.like(value, tuple(shape)), **attrs)

    def constant(self, kind: Any, number: float) -> SSAValue:
        """Returns a `constant` of one value."""
        element: Any = kind.element_type
        if not hasattr(element, "width"):
            data = element.pack((number,))
        else:
            width: int = element.width.data
            data = (int(number) % (1 << max(8, width))).to_bytes(max(1, width // 8), "little")
        count = prod(kind.get_shape())
        return self.emit("constant", [], kind, value=DenseIntOrFPElementsAttr(kind, BytesAttr(data * count)))

    def full(self, shape: Sequence[int], element: Any, number: float) -> SSAValue:
        """Returns a tensor filled with one value; a float must be exact in f32."""
        if hasattr(element, "width") and not -(2**31) <= number < 2**32:  # more than the attribute of `full` holds
            kind = TensorType(element, shape)
            return self.emit("constant", [], kind, value=DenseIntOrFPElementsAttr.from_list(kind, [int(number)]))
        fill: Attribute = (
            IntegerAttr(int(number), i32)  # xDSL wraps an unsigned one
            if hasattr(element, "width")
            else FloatAttr(float(number), f32)
        )
        return self.emit("full", [], TensorType(element, shape), shape=shape, fill_value=fill)
