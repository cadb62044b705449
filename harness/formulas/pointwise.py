"""Functions of single elements that StableHLO has no op for: activations, their derivatives, mathematics.

Each has a form that is stable in float64, and where they differ the steps that frameworks write. From the steps follow
the size (`formula.moved`) and a body in StableHLO (`stablehlo_body.py`). Names are PyTorch's and ttnn's; `_bw` is a
derivative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opscope.harness.formulas import special
from opscope.harness.formulas.formula import SMALLEST, Formula
from opscope.harness.formulas.special import erf, erfc, sigmoid

ROOT2, ROOT_PI = math.sqrt(2), math.sqrt(math.pi)
LN2, LN10 = math.log(2), math.log(10)
SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""Klambauer et al. 2017, Self-Normalizing Neural Networks."""


def _above(x: Any, least: float) -> Any:
    return np.maximum(x, least)


def _between(x: Any, least: float, most: float) -> Any:
    return np.minimum(np.maximum(x, least), most)


def _cubed(x: Any) -> Any:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))


def _gelu(x: Any) -> Any:
    return x * erfc(-x / ROOT2) / 2


def _gelu_body(x: Any) -> Any:
    return 0.5 * x * (1 + erf(x * (1 / ROOT2)))


def _gelu_of_sum(x: Any) -> Any:
    return 0.5 * x + 0.5 * x * erf(x * (1 / ROOT2))


def _silu(x: Any) -> Any:
    return x * sigmoid(x)


def _mish(x: Any) -> Any:
    below = np.exp(np.minimum(x, 20.0))
    part = below * (below + 2)
    return np.where(x > 20, x, x * (part / (part + 2)))


def _density(x: Any) -> Any:
    return np.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _gelu_bw(x: Any) -> Any:
    return erfc(-x / ROOT2) / 2 + x * _density(x)


def _gelu_tanh_bw(x: Any) -> Any:
    near = np.clip(x, -1e3, 1e3)  # beyond, it is 0 or 1
    slope = 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * near * near)
    part = sigmoid(2 * _cubed(near))
    return part * (1 + near * slope * sigmoid(-2 * _cubed(near)))


def _gelu_tanh_bw_body(x: Any) -> Any:
    tanh = np.tanh(_cubed(x))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (x * x))
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope


def _gelu_tanh_bw_of_sum(x: Any) -> Any:
    tanh = np.tanh(_cubed(x))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (x * x))
    return 0.5 * tanh + 0.5 * x * (1 - tanh * tanh) * slope + 0.5


def _logit_size(x: np.ndarray) -> np.ndarray:
    return np.abs(np.log(x)) + np.abs(np.log1p(-x))


def _silu_bw(x: Any) -> Any:
    near = np.clip(x, -1e4, 1e4)
    return sigmoid(near) * (1 + near * sigmoid(-near))


def _truncated(x: Any) -> Any:
    return np.where(x < 0, np.ceil(x), np.floor(x))


def _own(x: np.ndarray, *_: np.ndarray, **__: Any) -> np.ndarray:
    return np.abs(x)


def _elu(x: Any, alpha: float) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _entropy(x: Any) -> Any:
    return np.where(x == 0, 0.0, -x * np.log(x))


def _times_log(x: Any, y: Any) -> Any:
    return np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def _xlogy_body(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0.0, x * np.log(y))


def _logaddexp_body(x: Any, y: Any) -> Any:
    return np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y)))


def _halves(x: np.ndarray, gate: tuple[np.ndarray, ...], axis: int) -> tuple[np.ndarray, np.ndarray]:
    """A gated unit's value and gate: two operands, or the halves of one."""
    if gate:
        return x, gate[0]
    value, other = np.split(x, 2, axis=axis)
    return value, other


def _gated(
    of: Any, body: Any = None, tail: str = "", gate_first: bool = False, others: tuple[Any, ...] = ()
) -> Formula:
    """A gated linear unit: the value times a function of its gate (Shazeer 2020, GLU Variants Improve Transformer);
    `gate_first`: the function is of the first operand."""

    def made(function: Any) -> Any:
        def product(x: Any, *gate: Any, axis: int) -> Any:
            first, second = _halves(x, gate, axis)
            value, by = (second, first) if gate_first else (first, second)
            return value * function(by)

        return product

    steps = made(body or of)

    def size(x: Any, *gate: Any, axis: int) -> Any:
        from opscope.harness.formulas.formula import moved

        ((size, _),) = moved(lambda first, second: steps(first, second, axis=axis), _halves(x, gate, axis))
        return size

    def floor(x: Any, *gate: Any, axis: int) -> Any:
        first, second = _halves(x, gate, axis)
        return 2.0**-126 * (1 + np.abs(first)) * (1 + np.abs(second))

    def elements(x: Any, *gate: Any, axis: int) -> Any:
        return _halves(x, gate, axis)

    return Formula(
        made(of),
        size,
        (2, 1),
        {"axis": -1},
        floor,
        elements=elements,
        body=steps,
        tail=tail,
        others=tuple(map(made, others)),
    )


def _flag(of: Any) -> Formula:
    """A truth value as 0 or 1."""
    return Formula(lambda *x: np.where(of(*x), 1.0, 0.0), operands=(of.__code__.co_argcount,))


POINTWISE: dict[str, Formula] = {
    # activations
    "gelu": Formula(
        _gelu,
        lambda x: np.abs(x) / 2,
        tail="x < -3: 1 + erf(x / sqrt 2) cancels",
        body=_gelu_body,
        others=(_gelu_of_sum,),
    ),
    "gelu_tanh": Formula(
        lambda x: x * sigmoid(2 * _cubed(x)),
        lambda x: np.abs(x) / 2,
        tail="x < -3: 1 + tanh cancels",
        body=lambda x: 0.5 * x * (1 + np.tanh(_cubed(x))),
        others=(lambda x: x * (1 - 1 / (1 + np.exp(2 * _cubed(x)))),),
    ),
    "silu": Formula(_silu, lambda x: np.abs(_silu(x)) * (1 + np.abs(x)), tail="x < -88.7, where e^-x overflows"),
    "softplus": Formula(
        special.softplus,
        np.ones_like,
        tail="x < -8: log(1 + e^x) of a sum that is rounded",
        body=lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
        others=(lambda x: -np.log(sigmoid(-x)),),
    ),
    "mish": Formula(
        _mish,
        _own,
        tail="x < -8",
        body=lambda x: x * np.tanh(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))),
        others=(lambda x: x * np.tanh(special.softplus(x)), lambda x: x * (1 - 2 / (np.square(1 + np.exp(x)) + 1))),
    ),
    "tanhshrink": Formula(
        special.tanhshrink, _own, tail="|x| < 0.5: x - tanh x cancels", body=lambda x: x - np.tanh(x)
    ),
    "logit": Formula(
        lambda x: np.log(x) - np.log1p(-x),
        _logit_size,
        tail="near 1/2",
        body=lambda x: np.log(x) - np.log1p(-x),
        others=(lambda x: np.log(x / (1 - x)), lambda x: -np.log(1 / x - 1)),
    ),
    "log_sigmoid": Formula(
        lambda x: -special.softplus(-x),
        np.ones_like,
        tail="x > 8",
        body=lambda x: np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
        others=(lambda x: np.log(sigmoid(x)),),
    ),
    "hardswish": Formula(
        lambda x: x * (_between(x + 3, 0.0, 6.0) / 6),
        _own,
        others=(lambda x: x * _between(x * (1 / 6) + 0.5, 0.0, 1.0),),
    ),
    "hardsigmoid": Formula(
        lambda x: _between(x + 3, 0.0, 6.0) / 6, np.ones_like, others=(lambda x: _between(x * (1 / 6) + 0.5, 0.0, 1.0),)
    ),
    "hardmish": Formula(lambda x: x * (_between(x + 2, 0.0, 2.0) * 0.5), _own),
    "hardtanh": Formula(
        lambda x, min_val, max_val: _between(x, min_val, max_val), attributes={"min_val": -1.0, "max_val": 1.0}
    ),
    "hardshrink": Formula(lambda x, lambd: np.where(np.abs(x) <= lambd, 0.0, x), attributes={"lambd": 0.5}),
    "softshrink": Formula(
        lambda x, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, np.where(x == x, 0.0, x))),
        attributes={"lambd": 0.5},
    ),
    "relu": Formula(lambda x: _above(x, 0.0), np.zeros_like),
    "relu6": Formula(lambda x: _between(x, 0.0, 6.0), np.zeros_like),
    "relu_min": Formula(lambda x, lower: _above(x, lower), lambda x, lower: 0 * x, attributes={"lower": 0.5}),
    "relu_max": Formula(lambda x, upper: _between(x, 0.0, upper), lambda x, upper: 0 * x, attributes={"upper": 3.0}),
    "relu_squared": Formula(lambda x: _above(x, 0.0) * _above(x, 0.0)),
    "leaky_relu": Formula(lambda x, slope: np.where(x > 0, x, slope * x), attributes={"slope": 0.01}),
    "threshold": Formula(
        lambda x, threshold, value: np.where(x <= threshold, value, x), attributes={"threshold": 0.0, "value": 0.0}
    ),
    "elu": Formula(
        _elu,
        lambda x, alpha: np.where(x > 0, 0.0, 2 * abs(alpha)),
        attributes={"alpha": 1.0},
        tail="near 0: e^x - 1 cancels",
    ),
    "celu": Formula(
        lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0) * (1 / alpha))),
        lambda x, alpha: np.where(x > 0, 0.0, 2 * abs(alpha)),
        attributes={"alpha": 1.0},
        tail="near 0: e^x - 1 cancels",
    ),
    "selu": Formula(
        lambda x: SELU_SCALE * _elu(x, SELU_ALPHA),
        lambda x: np.where(x > 0, 2 * np.abs(x), 4.0),
        tail="near 0: e^x - 1 cancels",
        others=(
            lambda x: np.where(x > 0, SELU_SCALE * x, SELU_SCALE * SELU_ALPHA * np.exp(x) - SELU_SCALE * SELU_ALPHA),
        ),
    ),
    "softsign": Formula(lambda x: x / (1 + np.abs(x)), lambda x: np.abs(x) / (1 + np.abs(x))),
    "softcap": Formula(lambda x, cap: cap * np.tanh(x * (1 / cap)), attributes={"cap": 50.0}),
    "sigmoid": Formula(sigmoid, lambda x: sigmoid(x) * (1 + np.abs(x))),
    "glu": _gated(sigmoid),
    "geglu": _gated(_gelu, _gelu_body, "gate < -3", others=(_gelu_of_sum,)),
    "reglu": _gated(lambda gate: _above(gate, 0.0)),
    "swiglu": _gated(_silu, gate_first=True),
    "bias_gelu": Formula(
        lambda x, bias: _gelu(x + bias),
        operands=(2,),
        body=lambda x, bias: _gelu_body(x + bias),
        tail="x + bias < -3",
        others=(lambda x, bias: _gelu_of_sum(x + bias),),
    ),
    "prelu": Formula(lambda x, slope: np.where(x > 0, x, slope * x), operands=(2,)),
    # derivatives
    "gelu_bw": Formula(
        _gelu_bw,
        lambda x: 0.5 + (erfc(-x / ROOT2) / 2 + np.abs(x) * _density(x)) * (1 + x * x),
        tail="x < -3",
        body=lambda x: 0.5 * (1 + erf(x * (1 / ROOT2))) + x * _density(x),
    ),
    "gelu_tanh_bw": Formula(_gelu_tanh_bw, tail="x < -3", body=_gelu_tanh_bw_body, others=(_gelu_tanh_bw_of_sum,)),
    "silu_bw": Formula(
        _silu_bw,
        tail="x < -3",
        body=lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
        others=(
            lambda x: sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)),
            lambda x: x * sigmoid(x) + sigmoid(x) * (1 - x * sigmoid(x)),
        ),
    ),
    "sigmoid_bw": Formula(
        lambda x: sigmoid(x) * sigmoid(-x),
        tail="x > 8: 1 - sigmoid cancels",
        body=lambda x: sigmoid(x) * (1 - sigmoid(x)),
        others=(
            lambda x: sigmoid(x) - sigmoid(x) * sigmoid(x),
            lambda x: np.exp(-np.abs(x)) / ((1 + np.exp(-np.abs(x))) * (1 + np.exp(-np.abs(x)))),
        ),
    ),
    "tanh_bw": Formula(
        lambda x: 1 / np.square(np.cosh(x)),
        lambda x: 1 + np.square(np.tanh(x)),
        tail="|x| > 3",
        body=lambda x: 1 - np.tanh(x) * np.tanh(x),
        others=(
            lambda x: (1 - np.tanh(x)) * (1 + np.tanh(x)),
            lambda x: 4 * sigmoid(2 * x) * sigmoid(-2 * x),
            lambda x: 4 * sigmoid(2 * x) * (1 - sigmoid(2 * x)),
        ),
    ),
    "tanhshrink_bw": Formula(lambda x: np.tanh(x) * np.tanh(x), others=(lambda x: 1 - (1 - np.tanh(x) * np.tanh(x)),)),
    "log_sigmoid_bw": Formula(lambda x: sigmoid(-x), tail="x > 8: 1 - sigmoid cancels", body=lambda x: 1 - sigmoid(x)),
    "softsign_bw": Formula(
        lambda x: 1 / ((1 + np.abs(x)) * (1 + np.abs(x))), others=(lambda x: np.square(1 / (1 + np.abs(x))),)
    ),
    "elu_bw": Formula(
        lambda x, alpha: np.where(x > 0, 1.0, alpha * np.exp(np.minimum(x, 0.0))),
        attributes={"alpha": 1.0},
        others=(lambda x, alpha: np.where(x > 0, 1.0, alpha * np.expm1(np.minimum(x, 0.0)) + alpha),),
    ),
    "hardswish_bw": Formula(
        lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, (2 * x + 3) / 6)),
        lambda x: np.abs(x) / 3 + 1,
        # At 3 and -3 it has two slopes, half apart: frameworks take one or the other.
        floor=lambda x: np.where(np.abs(x) == 3, 0.5, SMALLEST * (1 + np.abs(x))),
        body=lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x * (1 / 3) + 0.5)),
    ),
    "erf_bw": Formula(lambda x: (2 / ROOT_PI) * np.exp(-(x * x))),
    "atan_bw": Formula(lambda x: 1 / (1 + x * x)),
    "asin_bw": Formula(
        lambda x: 1 / np.sqrt((1 - x) * (1 + x)), tail="near 1 and -1", body=lambda x: 1 / np.sqrt(1 - x * x)
    ),
    "asinh_bw": Formula(lambda x: 1 / np.sqrt(1 + x * x)),
    "acosh_bw": Formula(lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1))),
    "atanh_bw": Formula(lambda x: 1 / ((1 - x) * (1 + x)), tail="near 1 and -1", body=lambda x: 1 / (1 - x * x)),
    "tan_bw": Formula(
        lambda x: 1 / (np.cos(x) * np.cos(x)),
        body=lambda x: 1 + np.tan(x) * np.tan(x),
        others=(lambda x: np.square(1 / np.cos(x)),),
    ),
    "softplus_bw": Formula(sigmoid, others=(lambda x: 1 - np.exp(-special.softplus(x)),)),
    "selu_bw": Formula(lambda x: SELU_SCALE * np.where(x > 0, 1.0, SELU_ALPHA * np.exp(np.minimum(x, 0.0)))),
    "celu_bw": Formula(
        lambda x, alpha: np.where(x > 0, 1.0, np.exp(np.minimum(x, 0.0) * (1 / alpha))), attributes={"alpha": 1.0}
    ),
    "leaky_relu_bw": Formula(lambda x, slope: np.where(x > 0, 1.0, slope), attributes={"slope": 0.01}),
    "relu6_bw": _flag(lambda x: (x > 0) & (x < 6)),
    "hardtanh_bw": _flag(lambda x: (x > -1) & (x < 1)),
    "hardshrink_bw": Formula(lambda x, lambd: np.where(np.abs(x) > lambd, 1.0, 0.0), attributes={"lambd": 0.5}),
    "hardsigmoid_bw": Formula(lambda x: np.where(np.abs(x) < 3, 1 / 6, 0.0)),
    "logit_bw": Formula(lambda x: 1 / (x * (1 - x)), others=(lambda x: 1 / (x - x * x),)),
    "square_bw": Formula(lambda x: 2 * x),
    "log1p_bw": Formula(lambda x: 1 / (1 + x)),
    "log2_bw": Formula(lambda x: 1 / (x * LN2)),
    "log10_bw": Formula(lambda x: 1 / (x * LN10)),
    "exp2_bw": Formula(lambda x: np.exp2(x) * LN2, body=lambda x: np.exp(x * LN2) * LN2),
    "cos_bw": Formula(lambda x: -np.sin(x)),
    "acos_bw": Formula(
        lambda x: -1 / np.sqrt((1 - x) * (1 + x)), tail="near 1 and -1", body=lambda x: -1 / np.sqrt(1 - x * x)
    ),
    "erfc_bw": Formula(lambda x: (-2 / ROOT_PI) * np.exp(-(x * x))),
    "erfinv_bw": Formula(lambda x: (ROOT_PI / 2) * np.exp(np.square(special.erf_inv(x)))),
    "sqrt_bw": Formula(lambda x: 0.5 / np.sqrt(x)),
    "rsqrt_bw": Formula(lambda x: -0.5 / (x * np.sqrt(x)), body=lambda x: (-0.5 / x) * (1 / np.sqrt(x))),
    "reciprocal_bw": Formula(lambda x: -1 / (x * x), body=lambda x: -((1 / x) * (1 / x))),
    # mathematics
    "exp2": Formula(np.exp2, body=lambda x: np.exp(x * LN2)),
    "log2": Formula(np.log2, body=lambda x: np.log(x) * (1 / LN2)),
    "log10": Formula(np.log10, body=lambda x: np.log(x) * (1 / LN10)),
    "reciprocal": Formula(lambda x: 1 / x),
    "rdiv": Formula(lambda x, value: value / x, attributes={"value": 3.0}),
    "rpow": Formula(lambda x, base: np.power(base, x), attributes={"base": 3.0}),
    "deg2rad": Formula(lambda x: x * (math.pi / 180)),
    "rad2deg": Formula(lambda x: x * (180 / math.pi)),
    "trunc": Formula(np.trunc, body=_truncated),
    "frac": Formula(lambda x: x - np.trunc(x), body=lambda x: x - _truncated(x)),
    "erf": Formula(erf, lambda x: np.abs(erf(x))),
    "erfinv": Formula(special.erf_inv),
    "normal_cdf": Formula(
        lambda x: erfc(x * (-1 / ROOT2)) / 2, tail="x < -3", body=lambda x: 0.5 * (1 + erf(x * (1 / ROOT2)))
    ),
    "entropy": Formula(_entropy, others=(lambda x: np.where(x == 0, 0.0, x * np.log(1 / x)),)),
    "lgamma": Formula(special.lgamma, lambda x: np.abs(special.lgamma(x)) + 8),
    "digamma": Formula(special.digamma, lambda x: np.abs(special.digamma(x)) + 4),
    "trigamma": Formula(special.trigamma),
    "i0": Formula(special.i0),
    "i1": Formula(special.i1),
    "hypot": Formula(np.hypot, operands=(2,), body=lambda x, y: np.sqrt(x * x + y * y)),
    "logaddexp": Formula(
        np.logaddexp, operands=(2,), body=_logaddexp_body, others=(lambda x, y: x + special.softplus(y - x),)
    ),
    "logaddexp2": Formula(
        np.logaddexp2,
        operands=(2,),
        body=lambda x, y: np.maximum(x, y) + np.log1p(np.exp(np.abs(x - y) * -LN2)) * (1 / LN2),
        others=(
            lambda x, y: np.log2(np.exp2(x) + np.exp2(y)),
            lambda x, y: np.maximum(x, y) + np.log2(1 + np.exp2(-np.abs(x - y))),
        ),
    ),
    "xlogy": Formula(_times_log, operands=(2,), body=_xlogy_body),
    "xlog1py": Formula(
        lambda x, y: np.where((x == 0) & ~np.isnan(y), 0.0, x * np.log1p(y)),
        operands=(2,),
        body=lambda x, y: np.where(x == 0, 0.0, x * np.log1p(y)),
    ),
    "floor_divide": Formula(lambda x, y: np.floor(x / y), operands=(2,)),
    "mod": Formula(np.remainder, operands=(2,), body=lambda x, y: x - y * np.floor(x / y)),
    "div_trunc": Formula(lambda x, y: np.trunc(x / y), operands=(2,), body=lambda x, y: _truncated(x / y)),
    "rsub": Formula(lambda x, y: y - x, operands=(2,)),
    "subalpha": Formula(lambda x, y, alpha: x - alpha * y, operands=(2,), attributes={"alpha": 2.0}),
    "squared_difference": Formula(lambda x, y: (x - y) * (x - y), operands=(2,)),
    "ldexp": Formula(lambda x, y: x * np.exp2(y), operands=(2,), body=lambda x, y: x * np.exp(y * LN2)),
    "div_no_nan": Formula(lambda x, y: np.where(y == 0, 0.0, x / y), operands=(2,)),
    "fdim": Formula(lambda x, y: np.maximum(x - y, 0.0), operands=(2,)),
    "addalpha": Formula(lambda x, y, alpha: x + alpha * y, operands=(2,), attributes={"alpha": 2.0}),
    "lerp": Formula(
        lambda x, y, weight: np.where(np.abs(weight) < 0.5, x + weight * (y - x), y - (y - x) * (1 - weight)),
        operands=(3,),
        body=lambda x, y, weight: x + weight * (y - x),
        others=(
            lambda x, y, weight: (1 - weight) * x + weight * y,
            lambda x, y, weight: x - weight * x + weight * y,
        ),
    ),
    "addcmul": Formula(lambda x, y, z, value: x + value * y * z, operands=(3,), attributes={"value": 1.0}),
    "addcdiv": Formula(lambda x, y, z, value: x + value * y / z, operands=(3,), attributes={"value": 1.0}),
    "mac": Formula(lambda x, y, z: x * y + z, operands=(3,)),
    # truth values as numbers
    "eqz": _flag(lambda x: x == 0),
    "nez": _flag(lambda x: x != 0),
    "gtz": _flag(lambda x: x > 0),
    "gez": _flag(lambda x: x >= 0),
    "ltz": _flag(lambda x: x < 0),
    "lez": _flag(lambda x: x <= 0),
    "isnan": _flag(lambda x: x != x),
    "isinf": _flag(lambda x: (x == x) & (x - x != 0)),
    "isposinf": _flag(lambda x: (x > 0) & (x - x != 0)),
    "isneginf": _flag(lambda x: (x < 0) & (x - x != 0)),
    "isfinite": _flag(lambda x: x - x == 0),
    "heaviside": Formula(
        lambda x, value: np.where(x < 0, 0.0, np.where(x > 0, 1.0, np.where(x == 0, value, x))),
        attributes={"value": 0.5},
    ),
    "eq": _flag(lambda x, y: x == y),
    "ne": _flag(lambda x, y: x != y),
    "lt": _flag(lambda x, y: x < y),
    "le": _flag(lambda x, y: x <= y),
    "gt": _flag(lambda x, y: x > y),
    "ge": _flag(lambda x, y: x >= y),
    "logical_not": _flag(lambda x: x == 0),
    "logical_and": _flag(lambda x, y: (x != 0) & (y != 0)),
    "logical_or": _flag(lambda x, y: (x != 0) | (y != 0)),
    "logical_xor": _flag(lambda x, y: (x != 0) != (y != 0)),
}
"""Name -> formula of single elements, of operands in one shape."""
