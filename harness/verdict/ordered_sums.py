"""Sums that meet a limit, added up in one order on every processor.

BLAS adds in the order of its kernel for the processor, so that equal bits could have two verdicts. NumPy's own sum is
pairwise, in an order that its instruction set does not change.
"""

from __future__ import annotations

import math

import numpy as np


def dot(a: np.ndarray, b: np.ndarray) -> float:
    """The sum of the products of two flat float64 arrays."""
    return float(np.multiply(a, b).sum())


def norm(x: np.ndarray) -> float:
    """The root of the sum of squares of a flat float64 array."""
    return math.sqrt(dot(x, x))
