"""Whether an array of float32 has values that rounding treats apart: denormals, -0, Inf, NaN.

Found by the least and the largest bit patterns, read as integers with and without a sign: nothing is written, which for
arrays of megabytes costs more than the look at them. Patterns are float32's, in `has_tiny` bfloat16's too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opscope.base import passes

_NORMAL = {4: 0x00800000, 2: 0x0080}
"""Bytes of an element -> bit pattern of the smallest normal number: float32's, bfloat16's."""
_INF = 0x7F800000
_SIGN = 1 << 31
_BLOCK = 1 << 16
"""Elements that are looked at together where something has to be written: few enough for a cache."""


def has_tiny(pattern: NDArray[np.unsignedinteger], size: int = 0) -> bool:
    """Whether a contiguous array of bit patterns has -0, or a number other than 0 whose pattern without its sign is
    below `size`: by default a denormal.
    """
    size = size or _NORMAL[pattern.itemsize]
    if pattern.size == 0:
        return False
    if passes.compiled is not None:
        return passes.compiled.has_tiny(pattern, size)
    # Of integers with a sign the least is the smallest negative number: -0 is the least of all.
    sign = 1 << (8 * pattern.itemsize - 1)
    if int(pattern.view(f"i{pattern.itemsize}").min()) < size - sign:
        return True
    least = int(pattern.min())
    return least < size if least else _has_small(pattern.reshape(-1), size)


def _has_small(pattern: NDArray[np.unsignedinteger], size: int) -> bool:
    """The same of a flat array with zeros, which hide what else is small."""
    one = pattern.dtype.type(1)
    scratch = np.empty(min(pattern.size, _BLOCK), pattern.dtype)
    for start in range(0, pattern.size, _BLOCK):
        part = pattern[start : start + _BLOCK]
        # A zero less 1 is the largest integer.
        if int(np.subtract(part, one, out=scratch[: part.size]).min()) < size - 1:
            return True
    return False


def has_special(pattern: NDArray[np.uint32]) -> bool:
    """Whether a contiguous array of bit patterns has Inf or NaN."""
    return _reaches(pattern, _INF)


def has_nan(pattern: NDArray[np.uint32]) -> bool:
    """Whether a contiguous array of bit patterns has a NaN."""
    return _reaches(pattern, _INF + 1)


def _reaches(pattern: NDArray[np.uint32], size: int) -> bool:
    """Whether the bit pattern of a value without its sign is `size` or more; that of Inf at least."""
    if passes.compiled is not None:
        return passes.compiled.reaches(pattern, size)
    if pattern.size == 0 or _is_finite(pattern):
        return False
    return int(pattern.view(np.int32).max()) >= size or int(pattern.max()) >= size + _SIGN


def _is_finite(pattern: NDArray[np.uint32]) -> bool:
    """Whether a sum of squares, which BLAS makes in half the time of two looks, shows that no value is Inf or NaN."""
    flat = pattern.reshape(-1).view(np.float32)
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.dot(flat, flat)))


def once(x: np.ndarray) -> np.ndarray:
    """`x` with dims along which it only repeats itself, such as a broadcast scalar's, of size 1; else `x` itself."""
    if not repeats(x):
        return x
    return x[tuple(slice(None) if step else slice(0, 1) for step in x.strides)]


def repeats(x: np.ndarray) -> bool:
    """Whether `x` repeats itself along a dim. One of size 1 does not, although its stride may be 0."""
    return x.size > 0 and any(step == 0 and size > 1 for step, size in zip(x.strides, x.shape, strict=True))
