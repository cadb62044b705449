"""Fuses activations that exporters write out: `relu`, `sigmoid`, `silu` and `gelu`.

GELU is known by the error function and by its tanh approximation (Hendrycks and Gimpel, arXiv:1606.08415).
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from opscope.compiler.dialects.from_row import RowOp
from opscope.compiler.dialects.ttir_values import is_float, make, maker, read_once, shape_of, splat
from opscope.compiler.passes.ttir_fusing.matching import close, exactly, factors, fuses, orders


@fuses("maximum")
def relu(op: RowOp) -> list[RowOp] | None:
    """Matches max(x, 0) in either order, if an op computed x."""
    for value, zero in orders(op):
        if not exactly(splat(zero), 0.0) or maker(value) is None:
            continue
        if shape_of(value) == shape_of(op.results[0]) and is_float(value):
            return [make("relu", [value], op.results[0].type, op)]
    return None


@fuses("div")
def sigmoid(op: RowOp) -> list[RowOp] | None:
    """Matches 1 / (1 + exp(-x))."""
    one, below = op.operands
    total = maker(below, "add")
    if not exactly(splat(one), 1.0) or total is None or not read_once(below):
        return None
    for number, raised in orders(total):
        exp = maker(raised, "exp")
        turned = maker(exp.operands[0], "neg") if exp is not None and read_once(raised) else None
        if exactly(splat(number), 1.0) and turned is not None:
            return [make("sigmoid", turned.operands, op.results[0].type, op)]
    return None


@fuses("multiply")
def silu(op: RowOp) -> list[RowOp] | None:
    """Matches x * sigmoid(x)."""
    for value, weight in orders(op):
        gate = maker(weight, "sigmoid")
        if gate is not None and gate.operands[0] is value and read_once(weight):
            return [make("silu", [value], op.results[0].type, op)]
    return None


CUBIC = 0.044715
"""Factor of the cubic term in the approximation."""


@fuses("multiply")
def gelu(op: RowOp) -> list[RowOp] | None:
    """Matches 0.5 x (1 + erf(x / sqrt 2)), x Phi(x) by erfc, or 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    half, values = factors(op.results[0])
    if not exactly(half, 0.5) or len(values) != 2:
        return None
    for value, weight in (values, values[::-1]):
        if shape_of(value) != shape_of(op.results[0]):
            continue
        if _by_erf(weight, value) or _by_erfc(weight, value):
            return [make("gelu", [value], op.results[0].type, op)]
        if _by_tanh(weight, value):
            return [make("gelu", [value], op.results[0].type, op, approximate="tanh")]
    return None


def _scaled(value: SSAValue, of: SSAValue, factor: float) -> bool:
    """Whether a value is `of` times `factor`."""
    op = maker(value, "neg")
    if op is not None:
        return _scaled(op.operands[0], of, -factor)
    op = maker(value, "div")
    if op is not None:
        number = splat(op.operands[1])
        return _scaled(op.operands[0], of, factor * number) if number else False
    if value is of:
        return close(factor, 1.0)
    number, values = factors(value)
    if len(values) == 1 and values[0] is not value:
        return number != 0 and _scaled(values[0], of, factor / number)
    return False


def _one_plus(value: SSAValue, name: str) -> SSAValue | None:
    """Returns x if the value is 1 + f(x) for the op `name`; else None."""
    op = maker(value, "add")
    for one, rest in orders(op) if op is not None else ():
        inner = maker(rest, name)
        if exactly(splat(one), 1.0) and inner is not None:
            return inner.operands[0]
    return None


def _by_erf(weight: SSAValue, value: SSAValue) -> bool:
    inner = _one_plus(weight, "erf")
    return inner is not None and _scaled(inner, value, math.sqrt(0.5))


def _by_erfc(weight: SSAValue, value: SSAValue) -> bool:
    op = maker(weight, "erfc")
    return op is not None and _scaled(op.operands[0], value, -math.sqrt(0.5))


def _by_tanh(weight: SSAValue, value: SSAValue) -> bool:
    inner = _one_plus(weight, "tanh")
    if inner is None:
        return False
    factor, values = factors(inner)
    op = maker(values[0], "add") if len(values) == 1 else None
    if op is None or not close(factor, math.sqrt(2 / math.pi)):
        return False
    return any(a is value and _cubic(b, value) for a, b in orders(op))


def _cubic(value: SSAValue, of: SSAValue) -> bool:
    number, values = factors(value)
    if len(values) == 1:
        power = maker(values[0], "pow")
        return power is not None and close(number, CUBIC) and power.operands[0] is of and splat(power.operands[1]) == 3
    return close(number, CUBIC) and len(values) == 3 and all(v is of for v in values)
