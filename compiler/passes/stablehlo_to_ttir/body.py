"""Recognises what the body of a reduction computes by its only op, and lists the identities of those ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import Signedness
from xdsl.ir import Operation, Region, SSAValue

from opscope.compiler.passes.stablehlo_to_ttir.splat import splat_value


@dataclass(frozen=True)
class Fold:
    """A reduction that the device has: its kernel, and the elementwise op that adds a start value to it."""

    kernel: str
    combine: str


NUMERIC = {
    "stablehlo.add": Fold("sum", "add"),
    "stablehlo.maximum": Fold("max", "maximum"),
    "stablehlo.minimum": Fold("min", "minimum"),
    "stablehlo.multiply": Fold("prod", "multiply"),
    "stablehlo.and": Fold("reduce_and", "bitwise_and"),
    "stablehlo.or": Fold("reduce_or", "bitwise_or"),
    "stablehlo.xor": Fold("reduce_xor", "bitwise_xor"),
}
BOOLEAN = {
    "stablehlo.or": Fold("reduce_or", "logical_or"),
    "stablehlo.add": Fold("reduce_or", "logical_or"),
    "stablehlo.maximum": Fold("reduce_or", "logical_or"),
    "stablehlo.xor": Fold("reduce_xor", "logical_xor"),
    "stablehlo.and": Fold("reduce_and", "logical_and"),
    "stablehlo.multiply": Fold("reduce_and", "logical_and"),
    "stablehlo.minimum": Fold("reduce_and", "logical_and"),
}


def is_bool(element: Any) -> bool:
    """Whether an element type is i1."""
    return str(element) == "i1"


def recognise(region: Region, element: Any) -> Fold | None:
    """Returns the fold of a region that joins two scalars of type `element` by one known op; None for other regions."""
    block = region.blocks[0]
    ops = list(block.ops)
    table = BOOLEAN if is_bool(element) else NUMERIC
    if (
        len(ops) == 2
        and len(block.args) == 2
        and ops[0].name in table
        and set(ops[0].operands) == set(block.args)
        and list(ops[1].operands) == list(ops[0].results)
    ):
        return table[ops[0].name]
    return None


def recognise_each(region: Region, elements: list[Any]) -> list[Fold] | None:
    """Returns the folds of a region that joins several pairs of scalars, each by an op of its own; None for others."""
    block, count = region.blocks[0], len(elements)
    (*ops, end) = block.ops
    if len(ops) != count or len(block.args) != 2 * count:
        return None
    folds: list[Fold] = []
    for at, (value, element) in enumerate(zip(end.operands, elements, strict=True)):
        op = value.owner
        table = BOOLEAN if is_bool(element) else NUMERIC
        if not isinstance(op, Operation) or op.name not in table:
            return None
        if set(op.operands) != {block.args[at], block.args[count + at]}:
            return None
        folds.append(table[op.name])
    return folds


def combination(region: Region, element: Any) -> str:
    """Returns how a scatter's region joins old values and updates.

    That is a kernel's name, `update` if the region returns the updates themselves, or empty for any other region.
    """
    block = region.blocks[0]
    (*ops, end) = block.ops
    half = len(block.args) // 2
    if not ops and list(end.operands) == list(block.args[half:]):
        return "update"
    fold = recognise(region, element)
    return fold.combine if fold else ""


def known_number(value: SSAValue) -> Any:
    """Returns the number that a `full`, or a `constant` of one value, makes; else None."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name not in ("ttir.full", "ttir.constant"):
        return None
    if owner.name == "ttir.full":
        fill: Any = owner.properties["fill_value"]
        return fill.value.data
    return splat_value(owner.properties["value"])


def is_identity(fold: Fold, start: SSAValue, element: Any) -> bool:
    """Whether the start value is known and does not change the result."""
    value = known_number(start)
    if value is None:
        return False
    width: int = element.width.data if hasattr(element, "width") else 0
    if fold.kernel in ("sum", "reduce_or", "reduce_xor"):
        return value == 0
    if fold.kernel == "prod":
        return value == 1
    if fold.kernel == "reduce_and":
        return (value + 1) % 2**width == 0  # all bits are ones
    lowest = fold.kernel == "max"
    if not width:
        return value == (float("-inf") if lowest else float("inf"))
    unsigned = element.signedness.data == Signedness.UNSIGNED
    bounds = (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    return (value - bounds[0]) % 2**width == 0 if lowest else (value - bounds[1]) % 2**width == 0
