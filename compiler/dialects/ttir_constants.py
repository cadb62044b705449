"""Canonical forms of ops on constants of one number: their result, as the device's float32 or integers have it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_canonicalization import canonicalizes
from opscope.compiler.dialects.ttir_values import element, full, is_float, maker, shape_of, splat

COMPUTED: dict[str, Callable[[np.float32, np.float32], object]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@canonicalizes(*COMPUTED)
def of_numbers(op: RowOp) -> RowOp | None:
    """Two floats: the number that the kernel would make of them."""
    numbers = [splat(v) for v in op.operands]
    if len(numbers) != 2 or None in numbers or not all(is_float(v) for v in op.operands):
        return None
    with np.errstate(all="ignore"):
        first, second = (np.float32(n) for n in numbers)  # type: ignore[arg-type]
        number = float(COMPUTED[op.ROW.ttir](first, second))  # type: ignore[arg-type]
    return full(shape_of(op.results[0]), element(op.results[0]), number, op) if math.isfinite(number) else None


EXACT = {"f32": 2**24, "f16": 2**11, "bf16": 2**8}
"""Float type -> up to where it has every whole number."""


@canonicalizes("typecast")
def converted(op: RowOp) -> RowOp | None:
    """A whole number, to a float that has it."""
    number = splat(op.operands[0])
    limit = EXACT.get(str(element(op.results[0])), 0)
    if number is None or abs(number) >= limit or number != int(number):
        return None
    return full(shape_of(op.results[0]), element(op.results[0]), number, op)


@canonicalizes("multiply", "div")
def by_one(op: RowOp) -> SSAValue | None:
    """What an op computed, times one: PyTorch's `x + alpha * y` where alpha was not given."""
    pairs = (op.operands, op.operands[::-1]) if op.ROW.ttir == "multiply" else (op.operands,)
    for value, one in pairs:
        computed = maker(value) is not None and splat(value) is None
        if computed and splat(one) == 1 and value.type == op.results[0].type:
            return value
    return None


@canonicalizes("where")
def chosen(op: RowOp) -> SSAValue | None:
    """One of two by a constant, where that has the result's shape."""
    predicate = splat(op.operands[0])
    if predicate is None:
        return None
    side = op.operands[1 if predicate else 2]
    return side if side.type == op.results[0].type else None


@canonicalizes("maximum", "minimum")
def bounded_by_infinity(op: RowOp) -> SSAValue | None:
    """The largest of minus infinity and what an op computed is that."""
    least = -math.inf if op.ROW.ttir == "maximum" else math.inf
    for value, bound in (op.operands, op.operands[::-1]):
        if splat(bound) == least and maker(value) is not None and value.type == op.results[0].type:
            return value
    return None
