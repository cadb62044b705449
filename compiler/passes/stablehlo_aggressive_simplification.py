"""Pass `stablehlo-aggressive-simplification`: StableHLO ops that compute nothing go away, others become plainer ones.

It has the name of StableHLO's own pass, which tt-mlir's front pipeline runs if its option
`enable-aggressive-simplification` asks for it, and which jaxlib lacks. It does what that pass does to single ops and to
sums with zeros; it folds no other arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import BytesAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from opscope.compiler.ir.context import context
from opscope.compiler.ir.functions import functions
from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.named.known import splat


@dataclass(frozen=True)
class StablehloAggressiveSimplification(ModulePass):
    """Simplifies each function's ops in program order."""

    name = "stablehlo-aggressive-simplification"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the module in place."""
        for func in functions(op):
            for block in func.body.blocks:
                for inner in list(block.ops):
                    _simplify(inner)


def _simplify(op: Operation) -> None:
    """Replaces an op by what its rule returns, and looks at ops that the rule made as well."""
    rule = RULES.get(op.name)
    new = rule(op) if rule is not None and len(op.results) == 1 else None
    if new is None:
        return
    op.results[0].replace_all_uses_with(new)
    assert op.parent is not None
    op.detach()
    op.erase()
    if isinstance(new.owner, Operation):
        _simplify(new.owner)


def _before(op: Operation, name: str, operands: Sequence[SSAValue], kind: Attribute, **attrs: Attribute) -> SSAValue:
    """Puts an op with one result before `op`."""
    new = (
        context()
        .get_op(f"stablehlo.{name}")
        .create(operands=operands, result_types=[kind], attributes=dict(attrs), location=op.location)
    )
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    return new.results[0]


def _ints(op: Operation, name: str) -> tuple[int, ...]:
    attribute: Any = op.attributes[name]
    return (
        (int(attribute.value.data),)
        if isinstance(attribute, IntegerAttr)
        else tuple(int(v) for v in attribute.get_values())
    )


def _kind(value: SSAValue) -> Any:
    return value.type


def _same(op: Operation) -> SSAValue | None:
    """The operand of an op whose result has its type."""
    return op.operands[0] if op.operands[0].type == op.results[0].type else None


def _reshape(op: Operation) -> SSAValue | None:
    return _same(op)


def _broadcast(op: Operation) -> SSAValue | None:
    """A broadcast that repeats nothing and keeps the order of dims is a reshape."""
    dims = _ints(op, "broadcast_dimensions")
    value, result = op.operands[0], op.results[0]
    if list(dims) != sorted(dims) or prod(shape_of(value)) != prod(shape_of(result)):
        return None
    return _same(op) or _before(op, "reshape", [value], result.type)


def _transpose(op: Operation) -> SSAValue | None:
    """A transpose that moves dims of one element alone is a reshape."""
    order, shape = _ints(op, "permutation"), shape_of(op.operands[0])
    if list(order) == sorted(order):
        return op.operands[0]
    moved = [dim for dim in order if shape[dim] != 1]
    return _before(op, "reshape", op.operands, op.results[0].type) if moved == sorted(moved) else None


def _iota(op: Operation) -> SSAValue | None:
    """A range along one dim of several is a range of one dim, and a broadcast of it; one of one element is zero."""
    (dim,), kind = _ints(op, "iota_dimension"), _kind(op.results[0])
    shape = shape_of(op.results[0])
    if shape[dim] == 1:
        return _before(op, "constant", [], kind, value=_zeros(kind))
    if len(shape) == 1:
        return None
    line = type(kind)(kind.element_type, [shape[dim]])
    numbers = _before(op, "iota", [], line, iota_dimension=IntegerAttr(0, i64))
    return _before(op, "broadcast_in_dim", [numbers], kind, broadcast_dimensions=DenseArrayBase.from_list(i64, [dim]))


def _zeros(kind: Any) -> DenseIntOrFPElementsAttr:
    element = kind.element_type
    width = element.compile_time_size if not hasattr(element, "width") else max(1, element.width.data // 8)
    return DenseIntOrFPElementsAttr(kind, BytesAttr(bytes(width * prod(kind.get_shape()))))


def _add(op: Operation) -> SSAValue | None:
    """A sum with zeros is the other operand; so it is of floats, though -0.0 + 0.0 is 0.0."""
    left, right = op.operands
    return right if splat(left) == 0 else left if splat(right) == 0 else None


def _subtract(op: Operation) -> SSAValue | None:
    return op.operands[0] if splat(op.operands[1]) == 0 else None


def _select(op: Operation) -> SSAValue | None:
    chosen = splat(op.operands[0])
    return None if chosen is None else op.operands[1 if chosen else 2]


def _dimension_size(op: Operation) -> SSAValue:
    (dim,), kind = _ints(op, "dimension"), _kind(op.results[0])
    size = shape_of(op.operands[0])[dim]
    number = DenseIntOrFPElementsAttr(kind, BytesAttr(size.to_bytes(kind.element_type.width.data // 8, "little")))
    return _before(op, "constant", [], kind, value=number)


RULES: dict[str, Callable[[Operation], SSAValue | None]] = {
    "stablehlo.add": _add,
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.convert": _same,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.iota": _iota,
    "stablehlo.reshape": _reshape,
    "stablehlo.select": _select,
    "stablehlo.subtract": _subtract,
    "stablehlo.transpose": _transpose,
}
"""StableHLO op -> the value that takes the place of its result; None where it stays."""
