"""erf, erfc, their inverse and gelu as Chebyshev series, vectorised.

The coefficients are not taken from a library: they are fitted at first use, in float64, to `math.erf` and
`math.erfc` of the standard library at Chebyshev nodes. erf is computed in float32, all others in float64. Arrays are
gone through a block at a time, so that what a formula's steps make stays in the cache.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import Polynomial, chebyshev

from opscope.base import passes

_SPLIT = 1.0
"""Below this value erf is x times a series in x^2, above it 1 - erfc."""
_FAR = 27.3
"""erfc underflows in float64 from here on."""
_ONE = 4.0
"""erf is 1 from here on, within a unit in the last place of float32."""
_NEAR_ZERO = 2.0**-10
"""Below this value the inverse of erf is the first two terms of its series, within 1e-13."""
_BLOCK = 1 << 15
"""Elements that are computed together."""

Part = Callable[[np.ndarray], np.ndarray]


def _by_block(function: Part) -> Part:
    """`function`, of elements by themselves, applied to flat float32 blocks of an array; its results as float32."""

    @functools.wraps(function)
    def run(x: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        result = np.empty(np.shape(x), np.float32)  # an array of its own, no view: it is handed over uncopied
        out = result.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            out[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
        return result

    return run


def _fit(function: Callable[[float], float], degree: int) -> tuple[float, ...]:
    """Power-series coefficients, highest first, of the polynomial through `function` at Chebyshev nodes of [-1, 1]."""
    nodes = chebyshev.chebpts1(degree + 1)
    series = chebyshev.chebfit(nodes, np.array([function(float(t)) for t in nodes]), degree)
    return tuple(float(c) for c in chebyshev.cheb2poly(series)[::-1])


def _horner(t: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    total = np.full_like(t, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= t
        total += coefficient
    return total


@functools.cache
def _near_series() -> tuple[float, ...]:
    """Series of erf(x) / x in t, where x^2 = (t + 1) / 2."""

    def ratio(t: float) -> float:
        x = math.sqrt((t + 1) / 2)
        return math.erf(x) / x if x > 1e-9 else 2 / math.sqrt(math.pi)

    return _fit(ratio, 11)


@functools.cache
def _argument_series() -> tuple[float, ...]:
    """Series of atanh(erf(x)) / x in x^2: least squares, weighed until the largest error of erf hardly changes."""
    nodes = chebyshev.chebpts1(300)
    x = np.sqrt((nodes + 1) / 2) * _ONE
    value, rest = (np.array([function(v) for v in x.tolist()]) for function in (math.erf, math.erfc))
    true = 0.5 * np.log((1 + value) / rest) / x
    counts = rest * (1 + value) * x / value  # how much of an error of the series becomes one of erf, relative to it
    basis, weights, series = chebyshev.chebvander(nodes, 9), np.ones(nodes.size), np.zeros(10)
    for _ in range(30):
        rows = np.sqrt(weights) * counts
        series = np.linalg.lstsq(basis * rows[:, np.newaxis], true * rows, rcond=None)[0]
        weights *= np.abs(basis @ series - true) * counts
        weights /= weights.mean()
    power = chebyshev.Chebyshev(series, domain=(0, _ONE**2)).convert(kind=Polynomial)
    return tuple(float(c) for c in power.coef[::-1])


_LOW, _HIGH = 1 / (_FAR + 1), 1 / (_SPLIT + 1)


@functools.cache
def _tail_series() -> tuple[float, ...]:
    """Series of erfc(x) exp(x^2) (x + 1) in t, which runs from -1 to 1 as 1 / (x + 1) does from far to split."""

    def scaled(t: float) -> float:
        x = 1 / (_LOW + (t + 1) / 2 * (_HIGH - _LOW)) - 1
        if x < 25:
            return math.erfc(x) * math.exp(x * x) * (x + 1)
        # Beyond 25 by the asymptotic series, since erfc itself nears the denormals.
        return (1 - 0.5 / x**2 + 0.75 / x**4) / (x * math.sqrt(math.pi)) * (x + 1)

    return _fit(scaled, 14)


def _erf_near(x: np.ndarray) -> np.ndarray:
    return x * _horner(2 * x * x - 1, _near_series())


def _erfc_tail(x: np.ndarray) -> np.ndarray:
    """erfc of x >= split."""
    inverse = 1 / (np.minimum(x, _FAR) + 1)
    t = (inverse - _LOW) * (2 / (_HIGH - _LOW)) - 1
    return np.exp(-x * x) * _horner(t, _tail_series()) * inverse


def _by_part(x: np.ndarray, near_value: Part, far_value: Part) -> np.ndarray:
    """`near_value` of the elements within the split and `far_value` of the others, as float32."""
    wide = np.asarray(x, np.float64).ravel()
    far = np.flatnonzero(~(np.abs(wide) < _SPLIT))
    out = near_value(wide)
    out[far] = far_value(wide[far])
    return out.reshape(np.shape(x)).astype(np.float32)


@_by_block
def erf(x: np.ndarray) -> np.ndarray:
    """Error function, float32, computed in it: as tanh of x times a series, since NumPy's tanh is fast."""
    with np.errstate(over="ignore"):
        if passes.compiled is not None:
            out = np.empty_like(x)
            passes.compiled.odd_series(x, np.array(_argument_series(), np.float32), _ONE**2, out)
        else:
            out = _horner(np.minimum(x * x, np.float32(_ONE**2)), _argument_series())
            out *= x
    return np.tanh(out, out=out)


@_by_block
def erfc(x: np.ndarray) -> np.ndarray:
    """Complementary error function, float32."""

    def tail(v: np.ndarray) -> np.ndarray:
        value = _erfc_tail(np.abs(v))
        return np.where(v < 0, 2 - value, value)

    return _by_part(x, lambda v: 1 - _erf_near(v), tail)


@_by_block
def gelu(x: np.ndarray) -> np.ndarray:
    """x times the normal distribution's integral up to x, float32; the tail is taken in float64."""
    wide = np.asarray(x, np.float64)
    size = np.abs(wide) * math.sqrt(0.5)
    tail = _erfc_wide(size)
    value = 0.5 * wide * np.where(wide < 0, tail, 2 - tail)
    return np.where(np.isneginf(wide), 0, value).astype(np.float32)


@_by_block
def gelu_derivative(x: np.ndarray) -> np.ndarray:
    """The normal distribution's integral up to x plus x times its density, float32; computed in float64."""
    wide = np.asarray(x, np.float64)
    tail = 0.5 * _erfc_wide(np.abs(wide) * math.sqrt(0.5))
    near = np.minimum(np.abs(wide), 40.0)
    density = np.copysign(near, wide) * np.exp(-near * near / 2) / math.sqrt(2 * math.pi)
    return (np.where(wide < 0, tail, 1 - tail) + density).astype(np.float32)


@_by_block
def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU's approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), float32 (arXiv:1606.08415)."""
    wide = np.asarray(x, np.float64)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    # 1 + tanh(t) is 2 sigmoid(2 t), which keeps its digits where t is far below 0.
    return (wide / (1 + np.exp(np.minimum(-2 * inner, 700)))).astype(np.float32)


@_by_block
def erfinv(x: np.ndarray) -> np.ndarray:
    """Inverse error function, float32: Winitzki's estimate and three Halley steps in float64."""
    y = np.asarray(x, np.float64)
    inside = np.clip(y, -1 + 1e-16, 1 - 1e-16)
    log = np.log1p(-inside * inside)
    a = 0.147
    part = 2 / (math.pi * a) + log / 2
    guess = np.copysign(np.sqrt(np.maximum(np.sqrt(part * part - log / a) - part, 0)), inside)
    for _ in range(3):
        # The residual is taken from the tails, so that it stays exact near +-1.
        residual = np.copysign(1, guess) * ((1 - np.abs(inside)) - _erfc_wide(np.abs(guess)))
        step = residual / (2 / math.sqrt(math.pi) * np.exp(-guess * guess))
        guess = guess - step / (1 + guess * step)
    # There 1 - x has lost digits of x.
    guess = np.where(np.abs(y) < _NEAR_ZERO, math.sqrt(math.pi) / 2 * y * (1 + math.pi / 12 * y * y), guess)
    out = np.where(np.abs(y) == 1, np.copysign(np.inf, y), guess)
    return np.where(np.abs(y) > 1, np.nan, out).astype(np.float32)


def _erfc_wide(size: np.ndarray) -> np.ndarray:
    """erfc of sizes >= 0, float64."""
    flat = size.ravel()
    out = 1 - _erf_near(flat)
    far = np.flatnonzero(~(flat < _SPLIT))
    out[far] = _erfc_tail(flat[far])
    return out.reshape(size.shape)
