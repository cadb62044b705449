"""Numbers of a float type nearest to float64 values, rounded once, and errors in units of the type's last place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

PART = 1 << 14
"""Elements of a part whose steps stay in a processor's cache."""


def in_parts(of: Callable[..., Sequence[np.ndarray]], *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of a function of single elements, of arrays of one shape: made part by part."""
    shape, flat = arrays[0].shape, [np.ravel(x) for x in arrays]
    if flat[0].size <= PART:
        return list(of(*arrays))
    made = list[np.ndarray]()
    for start in range(0, flat[0].size, PART):
        part = slice(start, start + PART)
        results = of(*(x[part] for x in flat))
        made = made or [np.empty(flat[0].shape, np.asarray(y).dtype) for y in results]
        for whole, y in zip(made, results, strict=True):
            whole[part] = y
    return [y.reshape(shape) for y in made]


def rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Float64 values as the nearest numbers of a type; ties go to the even one, what is too large to infinity."""
    with np.errstate(all="ignore"):
        if dtype.kind in "biu" or dtype in (np.float16, np.float32, np.float64):
            return np.asarray(values).astype(dtype)
        return in_parts(lambda part: [_to_odd(part).astype(dtype)], np.asarray(values))[0]


def _to_odd(values: np.ndarray) -> np.ndarray:
    """Float64 values in float32, those between two numbers as the odd one: a later rounding to fewer than 22 bits is as
    if it were the only one (Boldo and Melquiond 2008, IEEE Trans. Comput. 57(4))."""
    wide = np.asarray(values, np.float64)
    near = wide.astype(np.float32)
    between = (near != wide) & np.isfinite(wide)
    bits = near.view(np.uint32) - (between & (np.abs(near) > np.abs(wide)))
    return (bits | between).astype(np.uint32).view(np.float32)


@functools.cache
def precision(dtype: np.dtype) -> tuple[int, int]:
    """Fraction bits behind the leading one, and the exponent of the smallest normal number (1.0 has 0)."""
    known = ml_dtypes.finfo(dtype)
    return int(known.nmant), int(known.minexp)


def last_place(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The unit in the last place of a type at float64 values: the distance of its numbers there, never that of smaller
    ones than the smallest normal."""
    bits, least = precision(dtype)
    with np.errstate(invalid="ignore"):
        _, exponents = np.frexp(np.where(np.isfinite(values), values, 1.0))
    return np.ldexp(1.0, np.maximum(exponents - 1, least) - bits)


def off_by(exact: np.ndarray, got: np.ndarray) -> np.ndarray:
    """How far a result is from float64 values, in units of its own type's last place; 0 where both are NaN, or the same
    infinity, infinite where one alone is. A value that rounds to infinity may be infinite."""
    with np.errstate(all="ignore"):
        return in_parts(_off_by, np.asarray(exact, np.float64), np.asarray(got))[0]


def _off_by(right: np.ndarray, got: np.ndarray) -> list[np.ndarray]:
    device = got.astype(np.float64)
    off = np.abs(device - right) / last_place(right, got.dtype)
    if np.isfinite(off).all():
        return [off]
    nearest = rounded(right, got.dtype).astype(np.float64)
    alike = (nearest == device) & ~np.isfinite(device) | (np.isnan(right) & np.isnan(device))
    return [np.where(alike, 0.0, np.where(np.isnan(off), np.inf, off))]
