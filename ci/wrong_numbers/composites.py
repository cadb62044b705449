"""Composites by other honest steps, and by wrong ones, judged by name: `python -m ci.wrong_numbers.composites host`.

Each of `FORMS` is a way in which frameworks, kernels and textbooks write a formula. It is evaluated with its steps in
float32 and, where the target says that steps may be so, in the op's own 16 bits. Prints the honest results that are
refused and the wrong ones (`LIES` of `TAMPERED`) that pass; ends with 1 if an honest one is refused, or if fewer than
97 % (with rounded steps 95 %, on a card 85 %) of the wrong ones are.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from opscope import judge
from opscope.harness.formulas import attributes
from opscope.harness.formulas.nearest import precision, rounded
from opscope.harness.formulas.special import erf, erfc, sigmoid
from opscope.harness.formulas.stepwise import Way, evaluations
from opscope.harness.record.element_types import numpy_dtype

TYPES = ("f32", "bf16", "f16")
TARGETS = {"host": "ieee", "steps": "steps", "card": "card"}
LEAST = {"host": 0.97, "steps": 0.95, "card": 0.85}
"""Share of the wrong results that must be refused."""
ELEMENTS = 2048
Draw = Callable[[np.random.Generator], list[np.ndarray]]
Form = Callable[..., Any]

NEAREST = Way(lambda step, function, exact, dtype: rounded(exact, dtype).astype(np.float64))
R2, LN2, LN3, LN10 = math.sqrt(2), math.log(2), math.log(3), math.log(10)
TANH = math.sqrt(2 / math.pi)
ALPHA, SELU = 1.6732632423543772, 1.0507009873554805


def _normal(scale: float, count: int = 1) -> Draw:
    return lambda rng: [scale * rng.standard_normal(ELEMENTS) for _ in range(count)]


def _between(low: float, high: float, count: int = 1) -> Draw:
    return lambda rng: [rng.uniform(low, high, ELEMENTS) for _ in range(count)]


def _beside(*draws: Draw) -> Draw:
    """Operands of several draws."""
    return lambda rng: [x for draw in draws for x in draw(rng)]


ANY: tuple[Draw, ...] = (_normal(1), _normal(3), _between(-10, 10))
TWO: tuple[Draw, ...] = (_normal(1, 2), _normal(3, 2), _between(-10, 10, 2))
THREE: tuple[Draw, ...] = (_normal(1, 3), _normal(3, 3))
ABOVE: tuple[Draw, ...] = (_between(0.1, 4), _between(0.01, 100), _between(0.9, 1.1))
INSIDE: tuple[Draw, ...] = (_between(-0.95, 0.95), _between(-0.2, 0.2))
SHARE: tuple[Draw, ...] = (_between(0.02, 0.98), _between(0.4, 0.6))


def _u(x: Any) -> Any:
    return TANH * (x + 0.044715 * (x * x * x))


def _u_slope(x: Any) -> Any:
    return TANH * (1 + 3 * 0.044715 * (x * x))


def _ncdf(x: Any) -> Any:
    return 0.5 * (1 + erf(x * (1 / R2)))


def _density(x: Any) -> Any:
    return np.exp(-0.5 * (x * x)) * (1 / math.sqrt(2 * math.pi))


def _by_exp(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _by_tanh(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _elus(scale: float, alpha: float) -> tuple[Form, ...]:
    return (
        lambda x: scale * np.where(x > 0, x, alpha * np.expm1(x)),
        lambda x: scale * np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0.0)) - 1)),
        lambda x: scale * (np.maximum(x, 0.0) + np.minimum(alpha * np.expm1(x), 0.0)),
        lambda x: np.where(x > 0, scale * x, (scale * alpha) * np.exp(x) - scale * alpha),
    )


SIGMOIDS: tuple[Form, ...] = (
    sigmoid,
    _by_exp,
    _by_tanh,
    lambda x: np.exp(x) / (1 + np.exp(x)),
    lambda x: 1 - 1 / (1 + np.exp(x)),
)
GELUS: tuple[Form, ...] = (
    lambda x: 0.5 * x * (1 + erf(x * (1 / R2))),
    lambda x: x * (0.5 * (1 + erf(x / R2))),
    lambda x: x * 0.5 * erfc(-x / R2),
    lambda x: 0.5 * x + 0.5 * x * erf(x / R2),
)
SILUS: tuple[Form, ...] = (lambda x: x * sigmoid(x), lambda x: x / (1 + np.exp(-x)), lambda x: x * _by_tanh(x))

FORMS: dict[str, tuple[tuple[Draw, ...], tuple[Form, ...]]] = {
    "sigmoid": (ANY, SIGMOIDS),
    "softplus_bw": (ANY, (*SIGMOIDS, lambda x: 1 - np.exp(-_softplus(x)))),
    "gelu": (ANY, GELUS),
    "gelu_tanh": (
        ANY,
        (
            lambda x: 0.5 * x * (1 + np.tanh(_u(x))),
            lambda x: x * sigmoid(2 * _u(x)),
            lambda x: x / (1 + np.exp(-2 * _u(x))),
            lambda x: 0.5 * x * (1 + np.tanh(TANH * x * (1 + 0.044715 * x * x))),
            lambda x: x * (1 - 1 / (np.exp(2 * _u(x)) + 1)),
        ),
    ),
    "silu": (ANY, SILUS),
    "mish": (
        ANY,
        (
            lambda x: x * np.tanh(_softplus(x)),
            lambda x: x * np.tanh(np.log(1 + np.exp(x))),
            lambda x: x * np.tanh(np.log1p(np.exp(x))),
            lambda x: x * ((np.exp(x) * (np.exp(x) + 2)) / (np.exp(x) * (np.exp(x) + 2) + 2)),
            lambda x: x * (1 - 2 / ((1 + np.exp(x)) * (1 + np.exp(x)) + 1)),
        ),
    ),
    "softplus": (
        ANY,
        (
            _softplus,
            lambda x: np.log(1 + np.exp(x)),
            lambda x: np.log1p(np.exp(x)),
            lambda x: x + np.log1p(np.exp(-x)),
            lambda x: -np.log(sigmoid(-x)),
        ),
    ),
    "log_sigmoid": (
        ANY,
        (
            lambda x: np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
            lambda x: -np.log1p(np.exp(-x)),
            lambda x: -np.log(1 + np.exp(-x)),
            lambda x: np.log(sigmoid(x)),
            lambda x: x - np.log1p(np.exp(x)),
        ),
    ),
    "tanhshrink": (ANY, (lambda x: x - np.tanh(x), lambda x: x - (1 - 2 / (1 + np.exp(2 * x))))),
    "elu": (ANY, _elus(1.0, 1.0)),
    "celu": (ANY, _elus(1.0, 1.0)),
    "selu": (ANY, _elus(SELU, ALPHA)),
    "hardswish": (
        ANY,
        (
            lambda x: x * np.minimum(np.maximum(x + 3, 0.0), 6.0) / 6,
            lambda x: x * (np.minimum(np.maximum(x + 3, 0.0), 6.0) * (1 / 6)),
            lambda x: x * np.minimum(np.maximum(x * (1 / 6) + 0.5, 0.0), 1.0),
            lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, x, x * (x + 3) / 6)),
        ),
    ),
    "hardsigmoid": (
        ANY,
        (
            lambda x: np.minimum(np.maximum(x + 3, 0.0), 6.0) / 6,
            lambda x: np.minimum(np.maximum(x * (1 / 6) + 0.5, 0.0), 1.0),
            lambda x: np.minimum(np.maximum(x / 6 + 0.5, 0.0), 1.0),
        ),
    ),
    "softsign": (ANY, (lambda x: x / (1 + np.abs(x)), lambda x: x * (1 / (1 + np.abs(x))))),
    "softcap": (ANY, (lambda x: 50.0 * np.tanh(x / 50.0), lambda x: np.tanh(x * (1 / 50.0)) * 50.0)),
    "leaky_relu": (ANY, (lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.maximum(x, 0.01 * x))),
    "relu_squared": (ANY, (lambda x: np.maximum(x, 0.0) * np.maximum(x, 0.0), lambda x: np.maximum(x, 0.0) * x)),
    "glu": (TWO, tuple(lambda x, g, of=of: x * of(g) for of in SIGMOIDS)),
    "swiglu": (TWO, tuple(lambda x, g, of=of: of(x) * g for of in SILUS)),
    "geglu": (TWO, tuple(lambda x, g, of=of: x * of(g) for of in GELUS)),
    "reglu": (TWO, (lambda x, g: x * np.maximum(g, 0.0),)),
    "bias_gelu": (TWO, tuple(lambda x, b, of=of: of(x + b) for of in GELUS)),
    "tanh_bw": (
        ANY,
        (
            lambda x: 1 - np.tanh(x) * np.tanh(x),
            lambda x: (1 - np.tanh(x)) * (1 + np.tanh(x)),
            lambda x: 1 / (np.cosh(x) * np.cosh(x)),
            lambda x: 4 * sigmoid(2 * x) * sigmoid(-2 * x),
            lambda x: 4 * sigmoid(2 * x) * (1 - sigmoid(2 * x)),
        ),
    ),
    "sigmoid_bw": (
        ANY,
        (
            lambda x: sigmoid(x) * (1 - sigmoid(x)),
            lambda x: sigmoid(x) * sigmoid(-x),
            lambda x: sigmoid(x) - sigmoid(x) * sigmoid(x),
            lambda x: np.exp(-np.abs(x)) / ((1 + np.exp(-np.abs(x))) * (1 + np.exp(-np.abs(x)))),
        ),
    ),
    "silu_bw": (
        ANY,
        (
            lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
            lambda x: sigmoid(x) + x * sigmoid(x) * (1 - sigmoid(x)),
            lambda x: x * sigmoid(x) + sigmoid(x) * (1 - x * sigmoid(x)),
        ),
    ),
    "gelu_bw": (
        ANY,
        (
            lambda x: _ncdf(x) + x * _density(x),
            lambda x: 0.5 * erfc(-x / R2) + x * _density(x),
            lambda x: 0.5 + 0.5 * erf(x / R2) + x * _density(x),
        ),
    ),
    "gelu_tanh_bw": (
        ANY,
        (
            lambda x: 0.5 * (1 + np.tanh(_u(x))) + 0.5 * x * (1 - np.tanh(_u(x)) * np.tanh(_u(x))) * _u_slope(x),
            lambda x: 0.5 * np.tanh(_u(x)) + (0.5 * x * (1 - np.square(np.tanh(_u(x))))) * _u_slope(x) + 0.5,
        ),
    ),
    "log_sigmoid_bw": (ANY, (lambda x: 1 - sigmoid(x), lambda x: sigmoid(-x), lambda x: 1 / (1 + np.exp(x)))),
    "tanhshrink_bw": (ANY, (lambda x: np.tanh(x) * np.tanh(x), lambda x: 1 - (1 - np.tanh(x) * np.tanh(x)))),
    "softsign_bw": (
        ANY,
        (lambda x: 1 / ((1 + np.abs(x)) * (1 + np.abs(x))), lambda x: np.square(1 / (1 + np.abs(x)))),
    ),
    "elu_bw": (ANY, (lambda x: np.where(x > 0, 1.0, np.exp(x)), lambda x: np.where(x > 0, 1.0, np.expm1(x) + 1))),
    "hardswish_bw": (
        ANY,
        (
            lambda x: np.where(x < -3, 0.0, np.where(x > 3, 1.0, x / 3 + 0.5)),
            lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, (2 * x + 3) / 6)),
        ),
    ),
    "erf_bw": (
        ANY,
        (
            lambda x: (2 / math.sqrt(math.pi)) * np.exp(-(x * x)),
            lambda x: np.exp(-np.square(x)) / (math.sqrt(math.pi) / 2),
        ),
    ),
    "atan_bw": (ANY, (lambda x: 1 / (1 + x * x), lambda x: 1 / (np.square(x) + 1))),
    "asinh_bw": (ANY, (lambda x: 1 / np.sqrt(1 + x * x), lambda x: np.sqrt(1 / (x * x + 1)))),
    "asin_bw": (
        INSIDE,
        (
            lambda x: 1 / np.sqrt(1 - x * x),
            lambda x: np.sqrt(1 / (1 - x * x)),
            lambda x: 1 / np.sqrt((1 - x) * (1 + x)),
        ),
    ),
    "acos_bw": (INSIDE, (lambda x: -1 / np.sqrt(1 - x * x), lambda x: -np.sqrt(1 / (1 - x * x)))),
    "atanh_bw": (INSIDE, (lambda x: 1 / (1 - x * x), lambda x: 1 / ((1 - x) * (1 + x)))),
    "acosh_bw": (
        (_between(1.1, 4), _between(1.5, 30)),
        (lambda x: 1 / np.sqrt(x * x - 1), lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1))),
    ),
    "tan_bw": (
        (_between(-1.4, 1.4),),
        (
            lambda x: 1 + np.tan(x) * np.tan(x),
            lambda x: 1 / (np.cos(x) * np.cos(x)),
            lambda x: np.square(1 / np.cos(x)),
        ),
    ),
    "logit": (
        SHARE,
        (
            lambda x: np.log(x) - np.log1p(-x),
            lambda x: np.log(x / (1 - x)),
            lambda x: np.log(x) - np.log(1 - x),
            lambda x: -np.log(1 / x - 1),
        ),
    ),
    "logit_bw": (
        SHARE,
        (lambda x: 1 / (x * (1 - x)), lambda x: 1 / (x - x * x), lambda x: 1 / x + 1 / (1 - x)),
    ),
    "exp2": (ANY, (lambda x: np.exp(x * LN2), np.exp2, lambda x: np.power(2.0, x))),
    "exp2_bw": (ANY, (lambda x: np.exp(x * LN2) * LN2, lambda x: LN2 * np.power(2.0, x))),
    "rpow": (
        ANY,
        (lambda x: np.power(3.0, x), lambda x: np.exp(x * LN3), lambda x: np.exp2(x * math.log2(3))),
    ),
    "log2": (ABOVE, (lambda x: np.log(x) * (1 / LN2), lambda x: np.log(x) / LN2, np.log2)),
    "log10": (ABOVE, (lambda x: np.log(x) * (1 / LN10), lambda x: np.log(x) / LN10, np.log10)),
    "log2_bw": (ABOVE, (lambda x: 1 / (x * LN2), lambda x: (1 / x) * (1 / LN2), lambda x: 1 / x / LN2)),
    "sqrt_bw": (ABOVE, (lambda x: 0.5 / np.sqrt(x), lambda x: 0.5 * (1 / np.sqrt(x)), lambda x: 1 / (2 * np.sqrt(x)))),
    "rsqrt_bw": (
        ABOVE,
        (
            lambda x: -0.5 / (x * np.sqrt(x)),
            lambda x: -0.5 * np.power(x, -1.5),
            lambda x: -0.5 * ((1 / np.sqrt(x)) * (1 / np.sqrt(x)) * (1 / np.sqrt(x))),
        ),
    ),
    "reciprocal_bw": (ABOVE, (lambda x: -1 / (x * x), lambda x: -np.square(1 / x), lambda x: -np.power(x, -2.0))),
    "deg2rad": (ANY, (lambda x: x * (math.pi / 180), lambda x: x * math.pi / 180, lambda x: x / (180 / math.pi))),
    "normal_cdf": (ANY, (_ncdf, lambda x: 0.5 * erfc(-x / R2), lambda x: 0.5 + 0.5 * erf(x / R2))),
    "entropy": (ABOVE, (lambda x: -x * np.log(x), lambda x: -(x * np.log(x)), lambda x: x * np.log(1 / x))),
    "hypot": (
        TWO,
        (
            lambda x, y: np.sqrt(x * x + y * y),
            lambda x, y: (
                np.maximum(np.abs(x), np.abs(y))
                * np.sqrt(1 + np.square(np.minimum(np.abs(x), np.abs(y)) / np.maximum(np.abs(x), np.abs(y))))
            ),
        ),
    ),
    "logaddexp": (
        TWO,
        (
            lambda x, y: np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y))),
            lambda x, y: np.log(np.exp(x) + np.exp(y)),
            lambda x, y: x + np.log1p(np.exp(y - x)),
            lambda x, y: np.maximum(x, y) + np.log(1 + np.exp(-np.abs(x - y))),
            lambda x, y: x + _softplus(y - x),
        ),
    ),
    "logaddexp2": (
        TWO,
        (
            lambda x, y: np.maximum(x, y) + np.log1p(np.exp(np.abs(x - y) * -LN2)) * (1 / LN2),
            lambda x, y: np.log2(np.exp2(x) + np.exp2(y)),
            lambda x, y: np.maximum(x, y) + np.log2(1 + np.exp2(-np.abs(x - y))),
        ),
    ),
    "xlogy": ((_beside(_normal(3), _between(0.1, 4)),), (lambda x, y: x * np.log(y),)),
    "xlog1py": (
        (_beside(_normal(3), _between(-0.5, 4)),),
        (lambda x, y: x * np.log1p(y), lambda x, y: x * np.log(1 + y)),
    ),
    "lerp": (
        THREE,
        (
            lambda x, y, w: x + w * (y - x),
            lambda x, y, w: (1 - w) * x + w * y,
            lambda x, y, w: x - w * x + w * y,
            lambda x, y, w: np.where(np.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1 - w)),
        ),
    ),
    "addcmul": (THREE, (lambda x, y, z: x + y * z, lambda x, y, z: x + 1.0 * y * z)),
    "addcdiv": (
        (_beside(_normal(1, 2), _between(0.5, 4)),),
        (lambda x, y, z: x + y / z, lambda x, y, z: x + y * (1 / z)),
    ),
    "squared_difference": (TWO, (lambda x, y: np.square(x - y), lambda x, y: (x - y) * (x - y))),
    "ldexp": (TWO, (lambda x, y: x * np.exp2(y), lambda x, y: x * np.exp(y * LN2))),
    "prelu": (TWO, (lambda x, a: np.where(x > 0, x, a * x), lambda x, a: np.maximum(x, 0.0) + a * np.minimum(x, 0.0))),
}
"""Formula of single elements -> what its operands are drawn from, and ways to write it."""

ROWS, TERMS = 32, 256
Rows = Callable[..., Any]


def _rows(mean: float, scale: float, *more: Sequence[int]) -> Draw:
    """Rows of a mean and a deviation, and operands of other shapes."""

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        return [mean + scale * rng.standard_normal((ROWS, TERMS)), *(rng.standard_normal(shape) for shape in more)]

    return draw


def _heads(scale: float) -> Draw:
    return lambda rng: [scale * rng.standard_normal((2, 64, 32)) for _ in range(3)]


def _one_by_one(x: np.ndarray) -> np.ndarray:
    """Sums of rows, added up from the first to the last term in their type."""
    return np.cumsum(x, axis=-1, dtype=x.dtype)[..., -1:]


def _spread(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance in two passes."""
    mean = x.mean(-1, keepdims=True)
    return mean, np.square(x - mean).mean(-1, keepdims=True)


def _spread_at_once(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance in one pass: the mean of squares less the squared mean."""
    mean = x.mean(-1, keepdims=True)
    return mean, np.square(x).mean(-1, keepdims=True) - np.square(mean)


def _spread_one_by_one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, each sum added up in order."""
    count = x.dtype.type(x.shape[-1])
    mean = _one_by_one(x) / count
    return mean, _one_by_one(x * x) / count - mean * mean


def _welford(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Welford 1962: mean and squares are kept up to date with each value."""
    mean, squares = x[..., :1] * 0, x[..., :1] * 0
    for number in range(x.shape[-1]):
        value = x[..., number : number + 1]
        step = value - mean
        mean = mean + step / x.dtype.type(number + 1)
        squares = squares + step * (value - mean)
    return mean, squares / x.dtype.type(x.shape[-1])


SPREADS = (_spread, _spread_at_once, _spread_one_by_one, _welford)
EPSILON = np.float32(1e-5)


def _norm(spread: Any, folded: bool = False) -> Rows:
    """A layer norm; `folded`: as one product and one sum with factors of each row."""

    def of(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        mean, variance = spread(x)
        root = 1 / np.sqrt(np.maximum(variance, 0) + x.dtype.type(EPSILON))
        return x * (root * weight) + (bias - mean * root * weight) if folded else (x - mean) * root * weight + bias

    return of


def _group(spread: Any) -> Rows:
    def of(x: np.ndarray) -> np.ndarray:
        mean, variance = spread(x.reshape(ROWS * 4, -1))
        return ((x.reshape(ROWS * 4, -1) - mean) / np.sqrt(np.maximum(variance, 0) + EPSILON)).reshape(x.shape)

    return of


def _channels(spread: Any) -> Rows:
    """A batch norm whose channels are rows, with their means and variances."""

    def of(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> list[np.ndarray]:
        mean, variance = spread(x)
        return [_norm(spread)(x, scale[:, np.newaxis], offset[:, np.newaxis]), mean[:, 0], variance[:, 0]]

    return of


def _root_of_squares(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x * (1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(1e-6))) * weight


def _powers(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(-1, keepdims=True))


def _online(q: np.ndarray, k: np.ndarray, v: np.ndarray, block: int = 16) -> np.ndarray:
    """Attention over blocks of keys, rescaled at each new largest score (Dao et al. 2022, FlashAttention)."""
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)
    most, total, y = scores[..., :1] - np.inf, scores[..., :1] * 0, np.zeros_like(q)
    for start in range(0, scores.shape[-1], block):
        part = scores[..., start : start + block]
        above = np.maximum(most, part.max(-1, keepdims=True))
        fade, power = np.exp(most - above), np.exp(part - above)
        total = total * fade + power.sum(-1, keepdims=True)
        y = y * fade + power @ v[..., start : start + block, :]
        most = above
    return y / total


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, lowered: bool = True) -> np.ndarray:
    scores = (q * np.float32(q.shape[-1] ** -0.5)) @ np.swapaxes(k, -1, -2)
    power = _powers(scores) if lowered else np.exp(scores)
    return power @ v / power.sum(-1, keepdims=True)


def _log_of_sum(x: np.ndarray) -> np.ndarray:
    return np.log(np.exp(x).sum(-1, keepdims=True))


NORMAL = tuple(_rows(mean, scale) for mean, scale in ((0, 1), (0, 3), (3, 1), (30, 1)))
NORMED = tuple(_rows(mean, scale, (TERMS,), (TERMS,)) for mean, scale in ((0, 1), (0, 3), (3, 1), (30, 1), (100, 1)))
OF_ROWS: dict[str, tuple[tuple[Draw, ...], tuple[Rows, ...]]] = {
    "softmax": (
        NORMAL,
        (
            lambda x: _powers(x) / _powers(x).sum(-1, keepdims=True),
            lambda x: _powers(x) * (1 / _powers(x).sum(-1, keepdims=True)),
            lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
            lambda x: np.exp(x) / _one_by_one(np.exp(x)),
            lambda x: np.exp(x - _log_of_sum(x)),
        ),
    ),
    "log_softmax": (
        NORMAL,
        (
            lambda x: x - x.max(-1, keepdims=True) - np.log(_powers(x).sum(-1, keepdims=True)),
            lambda x: x - (x.max(-1, keepdims=True) + np.log(_powers(x).sum(-1, keepdims=True))),
            lambda x: x - _log_of_sum(x),
            lambda x: np.log(_powers(x) / _powers(x).sum(-1, keepdims=True)),
        ),
    ),
    "layer_norm": (NORMED, (*map(_norm, SPREADS), _norm(_spread, folded=True), _norm(_spread_at_once, folded=True))),
    "group_norm(num_groups=4)": (NORMAL, tuple(map(_group, SPREADS))),
    "batch_norm_training(feature_index=0)": (
        tuple(_rows(mean, scale, (ROWS,), (ROWS,)) for mean, scale in ((0, 1), (3, 1), (30, 1), (100, 1))),
        tuple(map(_channels, SPREADS)),
    ),
    "rms_norm": (
        tuple(_rows(mean, 1, (TERMS,)) for mean in (0, 3)),
        (
            _root_of_squares,
            lambda x, weight: x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(1e-6)) * weight,
            lambda x, weight: x * (weight / np.sqrt(_one_by_one(x * x) / np.float32(TERMS) + np.float32(1e-6))),
        ),
    ),
    "l2_norm": (
        NORMAL,
        (
            lambda x: x / np.sqrt(np.square(x).sum(-1, keepdims=True) + np.float32(1e-6)),
            lambda x: x * (1 / np.sqrt(_one_by_one(x * x) + np.float32(1e-6))),
        ),
    ),
    "var(axis=-1)": (NORMAL, tuple(lambda x, of=of: np.maximum(of(x)[1], 0)[..., 0] for of in SPREADS)),
    "mean(axis=-1)": (
        NORMAL,
        (
            lambda x: x.mean(-1),
            lambda x: x.sum(-1) * np.float32(1 / TERMS),
            lambda x: (x * np.float32(1 / TERMS)).sum(-1),
            lambda x: _one_by_one(x)[..., 0] / np.float32(TERMS),
        ),
    ),
    "sdpa": (
        tuple(map(_heads, (0.5, 1, 3))),
        (
            _attention,
            _online,
            lambda q, k, v: _attention(q, k, v, lowered=False),
            lambda q, k, v: _online(q, k, v, block=1),
        ),
    ),
    "cross_entropy": (
        tuple(
            lambda rng, scale=scale: [scale * rng.standard_normal((ROWS, TERMS)), rng.dirichlet(np.ones(TERMS), ROWS)]
            for scale in (1.0, 3.0)
        ),
        (
            lambda x, p: -(p * (x - x.max(-1, keepdims=True) - np.log(_powers(x).sum(-1, keepdims=True)))).sum(-1),
            lambda x, p: (p * (_log_of_sum(x) - x)).sum(-1),
            lambda x, p: -(p * np.log(_powers(x) / _powers(x).sum(-1, keepdims=True))).sum(-1),
        ),
    ),
}
"""Formula that adds rows up -> the same."""


def _exact(name: str, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    _, formula, given = attributes.named(name)
    return _several(formula.exact(*operands, **given))


def _several(made: Any) -> list[np.ndarray]:
    return made if isinstance(made, list) else [made]


def honest(name: str, target: str, seed: int) -> Iterator[tuple[str, list[np.ndarray], list[np.ndarray]]]:
    """Label, operands and results of each way to compute a formula."""
    draws, forms = FORMS.get(name) or OF_ROWS[name]
    for element in TYPES:
        kind = numpy_dtype(element)
        inside = np.dtype(np.float32)
        for number, draw in enumerate(draws):
            operands = [x.astype(kind) for x in draw(np.random.default_rng([seed, number]))]
            wide = [x.astype(np.float64) for x in operands]
            right = _exact(name, wide)
            yield f"{element} draw {number} rounded once", operands, [rounded(y, kind) for y in right]
            for which, form in enumerate(forms):
                label = f"{element} draw {number} form {which}"
                if name in OF_ROWS:
                    with np.errstate(all="ignore"):
                        made = form(*(x.astype(np.float32) for x in operands))
                    yield f"{label} in f32", operands, _finite(made, right, kind)
                    continue
                for steps in (inside, kind) if kind != inside and target != "host" else (inside,):
                    (made,) = evaluations(form, wide, steps, [NEAREST])
                    yield f"{label} in {steps.name}", operands, _finite(made, right, kind)


def _finite(made: Any, right: list[np.ndarray], kind: np.dtype) -> list[np.ndarray]:
    """Results rounded to their type, but where steps overflow: there nobody would use them."""
    with np.errstate(all="ignore"):
        return [
            rounded(np.where(np.isfinite(y), y, exact).astype(np.float64), kind)
            for y, exact in zip(_several(made), right, strict=True)
        ]


TAMPERED = (
    "gelu", "gelu_tanh", "silu", "mish", "softplus", "log_sigmoid", "tanhshrink", "elu", "selu", "tanh_bw",
    "sigmoid_bw", "hardswish", "gelu_bw",
)  # fmt: skip
LIES: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "tail zero": lambda x, y, _: np.where(_tail(y), 0.0, y),
    "tail negated": lambda x, y, _: np.where(_tail(y), -y, y),
    "tail 5 % too large": lambda x, y, _: np.where(_tail(y), 1.05 * y, y),
    "small values zero": lambda x, y, _: np.where(np.abs(y) < np.quantile(np.abs(y[y != 0]), 0.1), 0.0, y),
    "2 ulp too large": lambda x, y, unit: y * (1 + 2 * unit),
    "2 % too large above 1": lambda x, y, _: np.where(x > 1, 1.02 * y, y),
}
"""Fault -> what it makes of operand and exact result, and a unit in the last place, relative."""


def _tail(y: np.ndarray) -> np.ndarray:
    """Which values are small, of a fiftieth to a fifth of their largest."""
    size = np.abs(y) / np.abs(y).max()
    return (size > 2e-3) & (size < 2e-2)


def lies(name: str, seed: int) -> Iterator[tuple[str, list[np.ndarray], np.ndarray]]:
    """Label, operands and result of each fault in a formula."""
    for element in TYPES:
        kind = numpy_dtype(element)
        x = (3 * np.random.default_rng(seed).standard_normal(ELEMENTS)).astype(kind)
        wide = x.astype(np.float64)
        (right,) = _exact(name, [wide])
        for lie, of in LIES.items():
            yield f"{element} {lie}", [x], rounded(of(wide, right, 2.0 ** -precision(kind)[0]), kind)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what is judged otherwise than it should be at each target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("targets", nargs="+", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], help="only these formulas")
    options = parser.parse_args(arguments)
    enough = True
    for target in options.targets:
        seen = Counter[str]()
        for name in options.only or (*FORMS, *OF_ROWS):
            for label, operands, got in honest(name, target, options.seed):
                verdict = judge(name, operands, got, target=TARGETS[target])
                seen["honest"] += 1
                if verdict.answer != "right":
                    seen["alarms"] += 1
                    print(f"  {target}: false alarm: {name} {label}: {verdict.reason}", flush=True)
        for name in options.only or TAMPERED:
            for label, operands, got in lies(name, options.seed) if name in TAMPERED else ():
                seen["lies"] += 1
                seen["refused"] += (verdict := judge(name, operands, got, target=TARGETS[target])).answer == "wrong"
                if verdict.answer != "wrong":
                    print(f"  {target}: passes: {name} {label}", flush=True)
        print(
            f"{target}: {seen['alarms']} of {seen['honest']} honest results refused, {seen['refused']} of "
            f"{seen['lies']} wrong ones",
            flush=True,
        )
        enough &= not seen["alarms"] and seen["refused"] >= LEAST[target] * seen["lies"]
    return int(not enough)


if __name__ == "__main__":
    sys.exit(main())
