"""Numbers that every element of a ttir value is known to be: constants, and arithmetic on them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from opscope.compiler.dialects.ttir_values import element, maker, splat

MOST_STEPS = 64
"""Ops that are looked through: the values of a loop's counter become known one after another."""
ARITHMETIC: dict[str, Callable[[float, float], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "maximum": max, "minimum": min,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def known_number(value: SSAValue, steps: int = MOST_STEPS) -> float | None:
    """Returns the number that every element of `value` is, as far as constants and arithmetic on them tell; else None.

    Integers are known while seven bits hold them, so that none can wrap.
    """
    if steps <= 0:
        return None
    if (number := splat(value)) is not None:
        return number
    if (op := maker(value, "typecast", "reshape", "broadcast", "permute", "slice_static")) is not None:
        number = known_number(op.operands[0], steps - 1)
        return _held(number, str(element(value)))
    if (op := maker(value, "where")) is not None:
        condition = known_number(op.operands[0], steps - 1)
        return None if condition is None else known_number(op.operands[1 if condition else 2], steps - 1)
    op = maker(value, *ARITHMETIC)
    if op is None:
        return None
    numbers = [known_number(operand, steps - 1) for operand in op.operands]
    if any(number is None for number in numbers):
        return None
    return _held(float(ARITHMETIC[op.ROW.ttir](*numbers)), str(element(value)))  # type: ignore[arg-type]


def _held(number: float | None, kind: str) -> float | None:
    """Returns the number as its type holds it; None for an integer that may wrap and for other types."""
    if number is None or kind == "f64":
        return number
    if kind == "f32":
        return float(np.float32(number))
    if kind == "i1":
        return float(bool(number))
    exact = kind.startswith(("i", "ui", "si")) and number == int(number)
    return number if exact and abs(number) < 2**7 else None


__all__ = ["known_number"]
