"""Integer arithmetic as StableHLO defines it, vectorised and exact in the operands' own width (results wrap)."""

from __future__ import annotations

import numpy as np


def _unsigned(x: np.ndarray) -> np.ndarray:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _bits(x: np.ndarray) -> int:
    return x.dtype.itemsize * 8


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotient towards zero; by zero: all bits set (as XLA defines it)."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "i":
        # The most negative number by -1 wraps to itself: negate instead of dividing.
        minus = safe == -1
        positive = np.where(minus, b.dtype.type(1), safe)
        quotient = np.floor_divide(a, positive)
        inexact = (quotient * positive != a) & ((a < 0) != (positive < 0))
        quotient = quotient + inexact.astype(a.dtype)
        quotient = np.where(minus, np.negative(a), quotient)
    else:
        quotient = np.floor_divide(a, safe)
    return np.where(b == 0, np.invert(a.dtype.type(0)), quotient)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder with the dividend's sign; by zero: the dividend."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 1)), b.dtype.type(1), b)
    return np.where(b == 0, a, np.fmod(a, safe))


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a to the power b by squaring, wrapping; a negative power is 0 but of 1 (1) and -1 (its sign)."""
    a, b = np.broadcast_arrays(a, b)
    result, base, left = np.ones_like(a), a.copy(), np.where(b < 0, b.dtype.type(0), b)
    while (left > 0).any():
        result = np.where((left & left.dtype.type(1)) != 0, result * base, result)
        base = base * base
        left = left >> left.dtype.type(1)
    if a.dtype.kind == "i":
        one = a.dtype.type(1)
        inverse = np.where(a == one, one, np.where(a == -1, np.where(b & one, -one, one), a.dtype.type(0)))
        result = np.where(b < 0, inverse, result)
    return result


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the product in twice the width."""
    wide = np.int64 if a.dtype.kind == "i" else np.uint64
    return ((a.astype(wide) * b.astype(wide)) >> wide(_bits(a))).astype(a.dtype)


def popcnt(x: np.ndarray) -> np.ndarray:
    """Number of bits set."""
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def count_leading_zeros(x: np.ndarray) -> np.ndarray:
    """Number of zero bits above the highest bit set."""
    value = _unsigned(np.asarray(x, order="C")).copy()
    shift = 1
    while shift < _bits(x):
        value |= value >> value.dtype.type(shift)
        shift *= 2
    return (_bits(x) - np.bitwise_count(value)).astype(x.dtype)


def _shifted(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = np.broadcast_arrays(a, b)
    count = _unsigned(np.asarray(b, order="C"))
    beyond = count >= _bits(a)
    return np.asarray(a, order="C"), np.where(beyond, count.dtype.type(0), count), beyond


def shift_left(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a << b; 0 where b is not below the width."""
    a, count, beyond = _shifted(a, b)
    return np.where(beyond, a.dtype.type(0), np.left_shift(_unsigned(a), count).view(a.dtype))


def shift_right_logical(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a >> b with zeros shifted in; 0 where b is not below the width."""
    a, count, beyond = _shifted(a, b)
    return np.where(beyond, a.dtype.type(0), np.right_shift(_unsigned(a), count).view(a.dtype))


def shift_right_arithmetic(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a >> b with the sign shifted in; all sign where b is not below the width."""
    a, count, beyond = _shifted(a, b)
    signed = a.view(np.dtype(f"i{a.dtype.itemsize}"))
    steps = np.where(beyond, count.dtype.type(_bits(a) - 1), count).astype(signed.dtype)
    return np.right_shift(signed, steps).view(a.dtype)


def shift_right_bounded(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a >> b with the sign shifted in; 0 where b is not below the width, as tt-metal's kernel has it."""
    _, _, beyond = _shifted(a, b)
    return np.where(beyond, a.dtype.type(0), shift_right_arithmetic(a, b))
