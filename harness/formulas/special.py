"""Functions that NumPy lacks, of float64 arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def one_step(function: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """The function, which counts as one step where its operand remembers its steps (`traced.Traced`)."""

    @functools.wraps(function)
    def called(x: Any) -> Any:
        return x.take_step(called, x) if hasattr(x, "take_step") else function(x)

    return called


_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE = (
    (
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
        2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ),
)  # fmt: skip
_LARGE = (
    (
        1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
        1.60837851487422766e-2, 6.58749161529837803e-4,
    ),
    (
        1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)  # fmt: skip
"""Numerator and denominator of the rational approximations of erf and erfc below 0.46875, up to 4 and above (Cody 1969,
Math. Comp. 23, 631; his CALERF in SPECFUN), highest power first."""


@one_step
def erf(x: np.ndarray) -> np.ndarray:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; within two units of float64's last
    place."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    result = np.asarray(np.copysign(1 - _erfc_of_size(size), x))
    near = size <= NEAR
    result[near] = _erf_near_zero(x[near])
    return result


@one_step
def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), without cancellation: within 2^-50 of itself, down to float64's smallest numbers; 0 from 26.6 on."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    beyond = _erfc_of_size(size)
    result = np.asarray(np.where(x < 0, 2 - beyond, beyond))
    near = size <= NEAR
    result[near] = 1 - _erf_near_zero(x[near])
    return result


NEAR = 0.46875
"""The largest size near zero."""


def _erf_near_zero(x: np.ndarray) -> np.ndarray:
    return x * _ratio(_SMALL, np.square(x))


def _erfc_of_size(x: np.ndarray) -> np.ndarray:
    """erfc of numbers from 0.46875 on; what is below has no meaning."""
    size = np.clip(x, NEAR, 30.0)
    # e^(-x^2) of a square that is rounded would be off by x^2 units: the square of 16 bits of x is exact.
    head = np.trunc(size * 16) / 16
    power = np.exp(-head * head) * np.exp(-(size - head) * (size + head))
    result = np.asarray(power * _ratio(_MIDDLE, size))
    large = size > 4
    if large.any():
        far = size[large]
        inverse = 1 / np.square(far)
        result[large] = power[large] * ((1 / math.sqrt(math.pi) - inverse * _ratio(_LARGE, inverse)) / far)
    return np.where(np.isnan(x), x, result)


def _ratio(of: tuple[Sequence[float], Sequence[float]], x: np.ndarray) -> np.ndarray:
    return polynomial(of[0], x) / polynomial(of[1], x)


def polynomial(factors: Sequence[float], x: np.ndarray) -> np.ndarray:
    """A polynomial of finite numbers, highest power first: numpy.polyval's bits, without an array for each power."""
    y = np.full_like(x, factors[0])
    for factor in factors[1:]:
        y *= x
        y += factor
    return y


@one_step
def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x), which overflows for no x."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1 + small)


@one_step
def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e^x)."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


@one_step
def tanhshrink(x: np.ndarray) -> np.ndarray:
    """x - tanh(x); near 0 by its series, since the difference cancels."""
    square = np.square(np.where(np.abs(x) < SERIES, x, 0.0))
    return np.where(np.abs(x) < SERIES, x * square * polynomial(TANH_SERIES, square), x - np.tanh(x))


SERIES = 0.1
"""Where tanhshrink's series ends: the first term left out is 1e-17 of the sum there."""
TANH_SERIES = (929569 / 638512875, -21844 / 6081075, 1382 / 155925, -62 / 2835, 17 / 315, -2 / 15, 1 / 3)
"""x - tanh(x) = x^3/3 - 2x^5/15 + ..., of the tangent numbers, highest power first."""


@one_step
def erf_inv(x: np.ndarray) -> np.ndarray:
    """The inverse of erf: a first value of six digits (Giles 2012, Approximating the erfinv function), then two steps
    of Halley, by erfc where 1 - |x| is small."""
    x = np.asarray(x, np.float64)
    size = np.abs(x)
    inside = size < 1
    w = -np.log((1 - np.where(inside, size, 0.0)) * (1 + np.where(inside, size, 0.0)))
    y = np.asarray(polynomial(_NEAR_ZERO, np.where(w < 5, w, 2.5) - 2.5) * size)
    if (far := w >= 5).any():
        y[far] = polynomial(_FAR, np.sqrt(w[far]) - 3) * size[far]
    tail = size > 0.5
    for some, sign in ((tail, 1.0), (~tail, -1.0)):
        z, of = y[some], size[some]
        for _ in range(2):
            off = (1 - of) - erfc(z) if sign > 0 else erf(z) - of
            slope = sign * -off / (2 / math.sqrt(math.pi) * np.exp(-z * z))
            z = z - slope / (1 + z * slope)
        y[some] = z
    ends = np.where(size == 1, np.inf, np.nan)
    return np.copysign(np.where(inside, np.where(size < 1e-100, size * math.sqrt(math.pi) / 2, y), ends), x)


_NEAR_ZERO = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""Giles's polynomials for -log(1 - x^2) below 5, and for its root from there on, highest power first."""


@one_step
def lgamma(x: np.ndarray) -> np.ndarray:
    """log |gamma(x)|: at most 1e-15 of the larger of 1 and itself off, its zeros included."""
    x = np.asarray(x, np.float64)
    infinite = np.isinf(x) | (x > 1e305) | ((x <= 0) & (x == np.floor(x)))
    known = np.where(infinite, 1.0, x).ravel().tolist()
    return np.where(infinite, np.inf, np.fromiter(map(math.lgamma, known), np.float64, x.size).reshape(x.shape))


@one_step
def digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of lgamma: NaN at 0 (infinite there, of the other sign than 0) and at negative integers."""
    x = np.asarray(x, np.float64)
    below = x < 0.5
    up = np.where(below, 1 - x, x)
    total = np.zeros_like(up)
    for _ in range(12):
        small = up < 12
        total = np.where(small, total - 1 / up, total)
        up = np.where(small, up + 1, up)
    inverse = 1 / (up * up)
    value = total + np.log(up) - 0.5 / up - inverse * polynomial(_DIGAMMA, inverse)
    part = x - np.rint(x)
    reflected = value - math.pi / np.tan(math.pi * np.where(part == 0, np.nan, part))
    at_zero = np.copysign(np.inf, -x)
    tiny = np.abs(x) < 1e-20  # 1 - x is 1 there
    return np.where(x == 0, at_zero, np.where(tiny, -1 / x, np.where(below, reflected, value)))


_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
"""B_2k / 2k, highest power first (Abramowitz and Stegun 6.3.18)."""


@one_step
def trigamma(x: np.ndarray) -> np.ndarray:
    """The second derivative of lgamma; infinite at 0 and at negative integers."""
    x = np.asarray(x, np.float64)
    below = x < 0.5
    up = np.where(below, 1 - x, x)
    total = np.zeros_like(up)
    for _ in range(16):
        small = up < 16
        total = np.where(small, total + 1 / (up * up), total)
        up = np.where(small, up + 1, up)
    inverse = 1 / (up * up)
    value = total + 1 / up + inverse / 2 + inverse / up * polynomial(_TRIGAMMA, inverse)
    sine = np.sin(math.pi * (x - np.rint(x)))
    with np.errstate(over="ignore"):
        return np.where(below, np.square(math.pi / sine) - value, value)


_TRIGAMMA = (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)
"""B_2k, highest power first (Abramowitz and Stegun 6.4.12)."""


@one_step
def i0(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 0."""
    return _bessel(np.asarray(x, np.float64), 0)


@one_step
def i1(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 1."""
    return _bessel(np.asarray(x, np.float64), 1)


@one_step
def i1e(x: np.ndarray) -> np.ndarray:
    """The modified Bessel function of order 1, times e^-|x|."""
    return _bessel(np.asarray(x, np.float64), 1, scaled=True)


def _bessel(x: np.ndarray, order: int, scaled: bool = False) -> np.ndarray:
    """By its power series, whose terms have one sign, up to 30; above by the asymptotic one, whose least term is e^-60
    there (Abramowitz and Stegun 9.6.10, 9.7.1)."""
    size = np.abs(x)
    near, far = np.minimum(size, 30.0), np.maximum(size, 30.0)
    quarter = near * near / 4
    term = total = np.where(order == 1, near / 2, np.ones_like(near))
    for k in range(1, 80):
        term = term * (quarter / (k * (k + order)))
        total = total + term
    part = series = np.ones_like(far)
    for k in range(1, 24):
        part = part * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * far)
        series = series + part
    series = series / np.sqrt(2 * math.pi * far)
    # e^x overflows before the product with the root does: in halves it does not.
    large = series if scaled else series * np.exp(far / 2) * np.exp(far / 2)
    value = np.where(size <= 30, total * np.exp(-near) if scaled else total, large)
    return np.where(np.isnan(x), x, np.copysign(value, x) if order else value)
