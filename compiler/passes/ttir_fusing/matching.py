"""Helpers for fusing rules: operands in either order, factors of a product, splats, and the registry of rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import maker, read_once, shape_of, splat

Rule = Callable[[RowOp], "list[RowOp] | None"]
"""Takes an op and returns the ops that replace it; None if the op stays. The last of them has its results, or the last
ones have one each."""
RULES: dict[str, list[Rule]] = {}
"""ttir op (without prefix) -> the rules whose last op it is."""


def fuses(*names: str) -> Callable[[Rule], Rule]:
    """Decorator for a rule whose last op is one of these."""

    def note(rule: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(rule)
        return rule

    return note


def orders(op: RowOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The two operands of a commutative op, in both orders."""
    first, second = op.operands
    yield first, second
    yield second, first


def close(number: float | None, expected: float) -> bool:
    """Whether a constant equals a number to the precision of 8 bits of mantissa (bf16)."""
    return number is not None and math.isclose(number, expected, rel_tol=2**-8)


def exactly(number: float | None, expected: float) -> bool:
    """Whether a constant is exactly a number that every float type can represent."""
    return number == expected


def factors(value: SSAValue, root: bool = True) -> tuple[float, list[SSAValue]]:
    """Splits a product into the product of its constants and all other factors.

    Only values that this product alone reads are split; with `root` the value itself may have any readers.
    """
    number = splat(value)
    if number is not None:
        return number, []
    op = maker(value, "multiply")
    if op is None or not (root or read_once(value)):
        return 1.0, [value]
    (a, left), (b, right) = (factors(v, root=False) for v in op.operands)
    return a * b, [*left, *right]


def along_last(op: RowOp) -> bool:
    """Whether a reduction keeps its dims and is over the last one alone."""
    attrs, rank = op.read(), len(shape_of(op.operands[0]))
    return bool(attrs["keep_dim"]) and [d % rank for d in attrs["dim_arg"]] == [rank - 1]
