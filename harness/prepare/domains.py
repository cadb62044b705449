"""The numbers that an op takes, and which share of them some inputs are."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from opscope.base.op_families import stands_for
from opscope.harness.prepare.operand_sizes import is_float
from opscope.models.seeding import numbers_between

DOMAINS: dict[str, dict[int, tuple[float, float]]] = {
    "acos": {0: (-1.0, 1.0)},
    "acosh": {0: (1.0, math.inf)},
    "asin": {0: (-1.0, 1.0)},
    "atanh": {0: (-1.0, 1.0)},
    "erf_inv": {0: (-1.0, 1.0)},
    "log": {0: (0.0, math.inf)},
    "log_plus_one": {0: (-1.0, math.inf)},
    "power": {0: (0.0, math.inf)},
    "rsqrt": {0: (0.0, math.inf)},
    "sqrt": {0: (0.0, math.inf)},
}
"""Op (without its dialect) -> operand -> the least and the largest number that has a result; others take any."""
SAMPLE = 1 << 18
"""Values of an operand that are looked at, taken at an odd stride."""


def domain(op_name: str, operand: int) -> tuple[float, float]:
    """The least and the largest number that an op takes."""
    return DOMAINS.get(stands_for(op_name).partition(".")[2], {}).get(operand, (-math.inf, math.inf))


def share(op_name: str, inputs: Sequence[np.ndarray]) -> float | None:
    """The share of its domain that an op's inputs reached, 0 to 1, of the operand that reached least.

    Of a type of at most 16 bits it is the share of its normal numbers and zero, of a wider one that of its exponents,
    of both signs. Scalars do not count; None if there is nothing else, or nothing real.
    """
    shares = [
        _share(x, *domain(op_name, number))
        for number, x in enumerate(inputs)
        if is_float(x) and x.dtype.kind != "c" and x.ndim and x.size
    ]
    return min(shares, default=None)


def _share(x: np.ndarray, low: float, high: float) -> float:
    flat = np.ravel(x)
    flat = np.ascontiguousarray(flat[:: flat.size // SAMPLE | 1] if flat.size > SAMPLE else flat)
    codes = flat.view(f"u{x.dtype.itemsize}")
    if x.dtype.itemsize > 2:
        codes = codes >> ml_dtypes.finfo(x.dtype).nmant
    possible = _possible(x.dtype, low, high)
    seen = np.zeros(possible.size, bool)
    seen[codes.astype(np.intp)] = True  # an index of another type takes three times as long
    return float(np.count_nonzero(seen & possible) / max(1, np.count_nonzero(possible)))


@functools.cache
def _possible(dtype: np.dtype, low: float, high: float) -> np.ndarray:
    """Whether each code of a type, or each sign and exponent of one of more than 16 bits, has numbers of the domain."""
    if dtype.itemsize <= 2:
        marks = np.zeros(1 << (8 * dtype.itemsize), bool)
        marks[numbers_between(dtype, low, high).view(f"u{dtype.itemsize}")] = True
        return marks
    bits = 8 * dtype.itemsize - ml_dtypes.finfo(dtype).nmant
    codes = np.arange(1 << bits, dtype=np.int64)
    least = (codes.astype(f"u{dtype.itemsize}") << ml_dtypes.finfo(dtype).nmant).view(dtype).astype(np.float64)
    exponent = codes & ((1 << (bits - 1)) - 1)
    normal = (exponent > 0) & (exponent < (1 << (bits - 1)) - 1)
    # The numbers of a code lie between its power of two and twice that.
    negative = least < 0
    reaches = np.where(negative, (least >= low) & (2 * least < high), (least <= high) & (2 * least > low))
    return normal & reaches
