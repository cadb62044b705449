"""Canonicalization of ops on constant numbers, computed as the device's float32 or integers would be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.known_numbers import known_number
from opscope.compiler.dialects.ttir_canonicalization import canonicalizes
from opscope.compiler.dialects.ttir_values import element, full, is_float, maker, shape_of, splat

COMPUTED: dict[str, Callable[[np.float32, np.float32], Any]] = {
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
    """Replaces an op on two float constants by the number that the kernel would compute."""
    numbers = [np.float32(fill) for v in op.operands if (fill := splat(v)) is not None]
    if len(op.operands) != 2 or len(numbers) != 2 or not all(is_float(v) for v in op.operands):
        return None
    with np.errstate(all="ignore"):
        number = float(COMPUTED[op.ROW.ttir](*numbers))
    return full(shape_of(op.results[0]), element(op.results[0]), number, op) if math.isfinite(number) else None


EXACT = {"f32": 2**24, "f16": 2**11, "bf16": 2**8}
"""Float type -> limit below which it represents every whole number."""


@canonicalizes("typecast")
def converted(op: RowOp) -> RowOp | None:
    """Replaces the conversion of a whole number to a float that represents it exactly.

    A `constant` of one element is such a number too: ONNX and PyTorch count in 64 bits, which no `full` holds.
    """
    (value,) = op.operands
    stored = maker(value, "constant") is not None and math.prod(shape_of(value)) == 1
    number = known_number(value) if stored else splat(value)
    limit = EXACT.get(str(element(op.results[0])), 0)
    if number is None or not abs(number) < limit or number != int(number):
        return None
    return full(shape_of(op.results[0]), element(op.results[0]), number, op)


@canonicalizes("multiply", "div")
def by_one(op: RowOp) -> SSAValue | None:
    """Replaces a computed value times or over one: PyTorch's `x + alpha * y` with the default alpha."""
    pairs = (op.operands, op.operands[::-1]) if op.ROW.ttir == "multiply" else (op.operands,)
    for value, one in pairs:
        computed = maker(value) is not None and splat(value) is None
        if computed and splat(one) == 1 and value.type == op.results[0].type:
            return value
    return None


@canonicalizes("where")
def chosen(op: RowOp) -> SSAValue | None:
    """Replaces a selection with a constant predicate by the selected operand, if that has the result's shape."""
    predicate = splat(op.operands[0])
    if predicate is None:
        return None
    side = op.operands[1 if predicate else 2]
    return side if side.type == op.results[0].type else None


@canonicalizes("maximum", "minimum")
def bounded_by_infinity(op: RowOp) -> SSAValue | None:
    """Replaces the maximum of a computed value and minus infinity by the value, and the minimum likewise."""
    least = -math.inf if op.ROW.ttir == "maximum" else math.inf
    for value, bound in (op.operands, op.operands[::-1]):
        if splat(bound) == least and maker(value) is not None and value.type == op.results[0].type:
            return value
    return None
