"""Whether an array of float32 has values that rounding treats apart: denormals, -0, Inf, NaN.

Found by the least and the largest bit patterns, read as integers with and without a sign: nothing is written, which for
arrays of megabytes costs more than the look at them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NORMAL = 0x00800000
"""Bit pattern of the smallest normal number."""
_INF = 0x7F800000
_SIGN = 1 << 31
_BLOCK = 1 << 16
"""Elements that are looked at together where something has to be written: few enough for a cache."""


def has_tiny(pattern: NDArray[np.uint32]) -> bool:
    """Whether a contiguous array of bit patterns has a denormal or -0."""
    if pattern.size == 0:
        return False
    # Of integers with a sign the least is the smallest negative number: -0 is the least of all.
    if int(pattern.view(np.int32).min()) < _NORMAL - _SIGN:
        return True
    least = int(pattern.min())
    return least < _NORMAL if least else _has_denormal(pattern.reshape(-1))


def _has_denormal(pattern: NDArray[np.uint32]) -> bool:
    """The same of a flat array with zeros, which hide what else is small."""
    scratch = np.empty(min(pattern.size, _BLOCK), np.uint32)
    for start in range(0, pattern.size, _BLOCK):
        part = pattern[start : start + _BLOCK]
        # A zero less 1 is the largest integer.
        if int(np.subtract(part, np.uint32(1), out=scratch[: part.size]).min()) < _NORMAL - 1:
            return True
    return False


def has_special(pattern: NDArray[np.uint32]) -> bool:
    """Whether a contiguous array of bit patterns has Inf or NaN."""
    return _reaches(pattern, _INF)


def has_nan(pattern: NDArray[np.uint32]) -> bool:
    """Whether a contiguous array of bit patterns has a NaN."""
    return _reaches(pattern, _INF + 1)


def _reaches(pattern: NDArray[np.uint32], size: int) -> bool:
    """Whether the bit pattern of a value without its sign is `size` or more."""
    if pattern.size == 0:
        return False
    return int(pattern.view(np.int32).max()) >= size or int(pattern.max()) >= size + _SIGN


def once(x: np.ndarray) -> np.ndarray:
    """`x` with dims along which it only repeats itself, such as a broadcast scalar's, of size 1."""
    if 0 not in x.strides or x.size == 0:
        return x
    return x[tuple(slice(None) if step else slice(0, 1) for step in x.strides)]
