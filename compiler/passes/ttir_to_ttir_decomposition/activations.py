"""Elementwise functions that tt-mlir names, in those that kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, i1
from xdsl.ir import SSAValue

from opscope.compiler.ops.shapes import shape_of
from opscope.compiler.passes.stablehlo_to_ttir.emit import Emit
from opscope.compiler.passes.ttir_to_ttir_decomposition.patterns import PATTERNS, binary, decomposes, number, unary

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
"""The constants of Klambauer et al., Self-Normalizing Neural Networks."""


def _where(e: Emit, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
    return e.emit("where", [condition, yes, no], no.type)


def _compare(e: Emit, name: str, x: SSAValue, bound: float) -> SSAValue:
    return e.emit(name, [x, number(e, x, bound)], TensorType(i1, shape_of(x)))


def _clamp(e: Emit, x: SSAValue, low: float, high: float) -> SSAValue:
    return e.emit("clamp_tensor", [x, number(e, x, low), number(e, x, high)], x.type)


def _trunc(e: Emit, x: SSAValue) -> SSAValue:
    return _where(e, _compare(e, "lt", x, 0.0), unary(e, "ceil", x), unary(e, "floor", x))


def _mish(e: Emit, x: SSAValue) -> SSAValue:
    # log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), whose exp cannot overflow.
    small = unary(e, "log1p", unary(e, "exp", unary(e, "neg", unary(e, "abs", x))))
    soft = binary(e, "add", binary(e, "maximum", x, 0.0), small)
    return binary(e, "multiply", x, unary(e, "tanh", soft))


def _selu(e: Emit, x: SSAValue) -> SSAValue:
    below = binary(e, "multiply", unary(e, "expm1", x), SELU_SCALE * SELU_ALPHA)
    return _where(e, _compare(e, "gt", x, 0.0), binary(e, "multiply", x, SELU_SCALE), below)


def _hardsigmoid(e: Emit, x: SSAValue) -> SSAValue:
    return _clamp(e, binary(e, "add", binary(e, "multiply", x, 1 / 6), 0.5), 0.0, 1.0)


def _signbit(e: Emit, x: SSAValue) -> SSAValue:
    # The sign of 1 / x tells -0 from 0, and an infinity keeps its own.
    negative = TensorType(i1, shape_of(x))
    turned = _compare(e, "lt", unary(e, "reciprocal", x), 0.0)
    bit = e.emit("logical_or", [_compare(e, "lt", x, 0.0), turned], negative)
    return e.typecast(bit, e.result_type.element_type)


FUNCTIONS: dict[str, Callable[[Emit, SSAValue], SSAValue]] = {
    "exp2": lambda e, x: unary(e, "exp", binary(e, "multiply", x, log(2))),
    "trunc": _trunc,
    "frac": lambda e, x: binary(e, "subtract", x, _trunc(e, x)),
    "mish": _mish,
    "relu6": lambda e, x: _clamp(e, x, 0.0, 6.0),
    "selu": _selu,
    "softsign": lambda e, x: binary(e, "div", x, binary(e, "add", unary(e, "abs", x), 1.0)),
    "hardsigmoid": _hardsigmoid,
    "square": lambda e, x: binary(e, "multiply", x, x),
    "signbit": _signbit,
}
PATTERNS.update({name: lambda e, attrs, of=of: of(e, e.operands[0]) for name, of in FUNCTIONS.items()})


@decomposes("leaky_relu")
def leaky_relu(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """x above 0, its multiple below."""
    (x,) = e.operands
    return _where(e, _compare(e, "gt", x, 0.0), x, binary(e, "multiply", x, attrs["parameter"]))


@decomposes("clamp_scalar")
def clamp_scalar(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Emits the bounds as constants."""
    (x,) = e.operands
    low, high = (attrs[name] for name in ("min", "max"))
    if not all(isinstance(bound, FloatAttr | IntegerAttr) for bound in (low, high)):
        raise e.refuse(f"expected numbers as min and max, got {low} and {high}", "error")
    return _clamp(e, x, low.value.data, high.value.data)


@decomposes("gelu_bw")
def gelu_bw(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """The gradient times Phi(x) + x phi(x), or the derivative of the tanh form."""
    gradient, x = e.operands
    if attrs.get("approximate", "none") == "tanh":
        c, k = sqrt(2 / pi), 0.044715
        cube = binary(e, "multiply", binary(e, "multiply", x, x), x)
        t = unary(e, "tanh", binary(e, "multiply", binary(e, "add", x, binary(e, "multiply", cube, k)), c))
        left = binary(e, "multiply", binary(e, "add", t, 1.0), 0.5)
        inner = binary(
            e, "multiply", binary(e, "add", binary(e, "multiply", binary(e, "multiply", x, x), 3 * k), 1.0), c
        )
        rest = binary(e, "subtract", number(e, t, 1.0), 0.0)
        rest = e.emit("subtract", [rest, binary(e, "multiply", t, t)], t.type)
        right = binary(e, "multiply", binary(e, "multiply", binary(e, "multiply", x, 0.5), rest), inner)
    else:
        left = unary(e, "erf", binary(e, "multiply", x, sqrt(0.5)))
        left = binary(e, "multiply", binary(e, "add", left, 1.0), 0.5)
        square = binary(e, "multiply", binary(e, "multiply", x, x), -0.5)
        right = binary(e, "multiply", binary(e, "multiply", x, unary(e, "exp", square)), 1 / sqrt(2 * pi))
    return binary(e, "multiply", gradient, binary(e, "add", left, right))


@decomposes("dropout")
def dropout(e: Emit, attrs: dict[str, Any]) -> SSAValue:
    """Only a probability of zero is the identity; with another the result would be this device's own dice."""
    if attrs["prob"] != 0.0:
        raise e.refuse(f"expected prob = 0, got {attrs['prob']}: no program here drops values at random")
    return binary(e, "multiply", e.operands[0], attrs["scale"])
