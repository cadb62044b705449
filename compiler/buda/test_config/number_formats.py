"""Rounds values to formats of few bits in float64, written apart from the simulator's own rounding.

Layouts: tt-isa-documentation, FloatBitPatterns.md; block floats share the largest exponent of 16 elements of a row.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from opscope.base.number_formats import FORMATS, SHARED

BLOCK_BITS = {row.name: row.mantissa_bits for row in FORMATS.values() if row.kind == "block"}
"""Format -> bits of an element's size, the leading 1 among them."""
INTEGERS = {"Int8": 127.0, "UInt8": 255.0, "UInt16": 65535.0, "Int32": 2147483647.0, "UInt32": 4294967295.0}
"""Format -> its largest number. Signed ones have sign and size, so that the smallest is its opposite."""
FLOATS = {"Float32": np.float32, "Float16": np.float16, "Float16_b": ml_dtypes.bfloat16}
LF8_MANTISSA, LF8_EXPONENTS = 2, (-15, 16)
FLOAT16_EXPONENTS = (-15, 16)


PACKED = frozenset({"Lf8", *INTEGERS, *(name for name in BLOCK_BITS if FORMATS[name].bits < 8)})
"""Formats to which results are rounded; others hold them well enough to be compared (golden/golden_digraph.cpp)."""


def packed(value: np.ndarray, df: str) -> np.ndarray:
    """Returns an op's results as the packer leaves them: cut, not rounded, where a format has few bits."""
    return rounded(value, df, cut=True) if df in PACKED else value


def rounded(value: np.ndarray, df: str, cut: bool = False) -> np.ndarray:
    """Returns values as a format has them, to the nearest; those of few bits cut, if asked for."""
    if df in FLOATS:
        return value.astype(FLOATS[df]).astype(np.float64)
    if df in BLOCK_BITS:
        return _block(value, BLOCK_BITS[df], half=not df.endswith("_b"), cut=cut)
    if df in INTEGERS:
        largest = INTEGERS[df]
        return np.clip(_half_away(value), 0.0 if df.startswith("U") else -largest, largest)
    if df == "Lf8":
        return _narrow(value, LF8_MANTISSA, LF8_EXPONENTS, cut)
    return value


def _half_away(value: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(value) + 0.5), value)


def _block(value: np.ndarray, bits: int, half: bool, cut: bool) -> np.ndarray:
    z, rows, cols = value.shape
    groups = value.reshape(z, rows, cols // SHARED, SHARED)
    largest = np.max(np.abs(groups), axis=-1, keepdims=True)
    _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
    low, high = FLOAT16_EXPONENTS if half else (-127, 127)
    unit = np.ldexp(1.0, np.clip(exponent - 1, low, high) - (bits - 1))
    steps = np.minimum(np.floor(np.abs(groups) / unit + (0.0 if cut else 0.5)), 2.0**bits - 1)
    return (np.copysign(steps * unit, groups)).reshape(z, rows, cols)


def _narrow(value: np.ndarray, mantissa: int, exponents: tuple[int, int], cut: bool) -> np.ndarray:
    """Rounds to a mantissa of so many bits, ties to even, or cuts to it; too small is 0, too large the largest."""
    fraction, exponent = np.frexp(value)
    near = (np.trunc if cut else np.rint)(fraction * 2.0 ** (mantissa + 1)) / 2.0 ** (mantissa + 1)
    low, high = exponents
    largest = (2.0 - 2.0**-mantissa) * 2.0**high
    return np.where(exponent - 1 < low, 0.0, np.clip(np.ldexp(near, exponent), -largest, largest))
