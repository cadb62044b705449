"""Functions that NumPy lacks, of float64 arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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


def erf(x: np.ndarray) -> np.ndarray:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; within two units of float64's last
    place."""
    x = np.asarray(x, np.float64)
    return np.where(np.abs(x) <= 0.46875, _erf_near_zero(x), np.copysign(1 - _erfc_of_size(np.abs(x)), x))


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), without cancellation: within 2^-50 of itself, down to float64's smallest numbers; 0 from 26.6 on."""
    x = np.asarray(x, np.float64)
    beyond = _erfc_of_size(np.abs(x))
    return np.where(np.abs(x) <= 0.46875, 1 - _erf_near_zero(x), np.where(x < 0, 2 - beyond, beyond))


def _erf_near_zero(x: np.ndarray) -> np.ndarray:
    near = np.where(np.abs(x) <= 0.46875, x, 0.0)
    return np.where(np.isnan(x), x, near * _ratio(_SMALL, np.square(near)))


def _erfc_of_size(x: np.ndarray) -> np.ndarray:
    """erfc of numbers from 0.46875 on; what is below has no meaning."""
    size = np.clip(x, 0.46875, 30.0)
    # e^(-x^2) of a square that is rounded would be off by x^2 units: the square of 16 bits of x is exact.
    head = np.trunc(size * 16) / 16
    power = np.exp(-head * head) * np.exp(-(size - head) * (size + head))
    middle = _ratio(_MIDDLE, np.minimum(size, 4.0))
    inverse = 1 / np.square(np.maximum(size, 4.0))
    large = (1 / math.sqrt(math.pi) - inverse * _ratio(_LARGE, inverse)) / np.maximum(size, 4.0)
    return np.where(np.isnan(x), x, power * np.where(size <= 4, middle, large))


def _ratio(of: tuple[Sequence[float], Sequence[float]], x: np.ndarray) -> np.ndarray:
    return np.polyval(of[0], x) / np.polyval(of[1], x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x), which overflows for no x."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1 + small)


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e^x)."""
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def tanhshrink(x: np.ndarray) -> np.ndarray:
    """x - tanh(x); near 0 by its series, since the difference cancels."""
    square = np.square(np.where(np.abs(x) < SERIES, x, 0.0))
    return np.where(np.abs(x) < SERIES, x * square * np.polyval(TANH_SERIES, square), x - np.tanh(x))


SERIES = 0.1
"""Where tanhshrink's series ends: the first term left out is 1e-17 of the sum there."""
TANH_SERIES = (929569 / 638512875, -21844 / 6081075, 1382 / 155925, -62 / 2835, 17 / 315, -2 / 15, 1 / 3)
"""x - tanh(x) = x^3/3 - 2x^5/15 + ..., of the tangent numbers, highest power first."""
