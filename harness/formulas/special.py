"""Functions that NumPy lacks, of float64 arrays: the C library's own, each within a unit of the last place."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def _of_each(function: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A function of one number for arrays of any shape; what it refuses (a pole) is NaN."""

    def checked(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.inf if function is math.lgamma else math.nan

    def of(x: np.ndarray) -> np.ndarray:
        wide = np.asarray(x, np.float64)
        return np.fromiter(map(checked, wide.ravel().tolist()), np.float64, wide.size).reshape(wide.shape)

    return of


_erf, _erfc, lgamma = _of_each(math.erf), _of_each(math.erfc), _of_each(math.lgamma)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return _erf(x)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), without cancellation; 0 from 27.3 on."""
    return _erfc(x)


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
    series = 0.0
    for coefficient in reversed(TANH_SERIES):
        series = series * square + coefficient
    return np.where(np.abs(x) < SERIES, x * square * series, x - np.tanh(x))


SERIES = 0.1
"""Where tanhshrink's series ends: the first term left out is 1e-17 of the sum there."""
TANH_SERIES = (1 / 3, -2 / 15, 17 / 315, -62 / 2835, 1382 / 155925, -21844 / 6081075, 929569 / 638512875)
"""x - tanh(x) = x^3/3 - 2x^5/15 + ..., of the tangent numbers."""
