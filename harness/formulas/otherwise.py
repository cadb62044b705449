"""Functions of one step that compilers and kernels write in several: each loses digits of its own in some tail.

Evaluations of one formula differ by these alone, most often: a logistic by e^-x is exact far below 0, one by tanh is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opscope.harness.formulas import special

Steps = Mapping[Callable[..., Any], Callable[..., Any]]
"""Function of one step -> the same in several."""

LN2, LN10 = math.log(2), math.log(10)
WAYS: tuple[Steps, ...] = (
    {
        special.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
        special.softplus: lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
    },
    {
        special.sigmoid: lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
        special.softplus: lambda x: np.log(1 + np.exp(x)),
        special.erfc: lambda x: 1 - special.erf(x),
        special.tanhshrink: lambda x: x - np.tanh(x),
        np.cosh: lambda x: 0.5 * (np.exp(x) + np.exp(-x)),
        np.exp2: lambda x: np.exp(x * LN2),
        np.expm1: lambda x: np.exp(x) - 1,
        np.hypot: lambda x, y: np.sqrt(x * x + y * y),
        np.log10: lambda x: np.log(x) * (1 / LN10),
        np.log1p: lambda x: np.log(1 + x),
        np.log2: lambda x: np.log(x) * (1 / LN2),
        np.logaddexp: lambda x, y: np.log(np.exp(x) + np.exp(y)),
        np.logaddexp2: lambda x, y: np.log2(np.exp2(x) + np.exp2(y)),
        np.power: lambda x, y: np.exp(y * np.log(x)),
    },
    {
        special.sigmoid: lambda x: 1 - 1 / (1 + np.exp(x)),
        special.softplus: lambda x: x + np.log1p(np.exp(-x)),
        special.tanhshrink: lambda x: x - np.tanh(x),
        np.logaddexp: lambda x, y: x + np.log1p(np.exp(y - x)),
        np.power: lambda x, y: np.exp2(y * np.log2(x)),
        np.tanh: lambda x: 1 - 2 / (1 + np.exp(2 * x)),
    },
)
"""Ways to write them, each with at most one for a function; the first is what XLA has."""
