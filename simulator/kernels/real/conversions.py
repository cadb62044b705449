"""Conversions between number formats as ttnn's own kernels make them on Blackhole, bit for bit.

By ckernel_sfpu_typecast.h of ttnn 0.81.1. Integers of 32 bits saturate, those of 16 too, but floats are rounded to
these, halves away from 0; to 8 bits the last ones of a whole number are taken. A NaN is larger than all numbers. On the
way to block floats integers are rounded twice, first to bfloat16.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.rounding import Image, bits, to_mantissa
from opscope.simulator.kernels.real.vector_unit import from_bits

BYTE = 0xFF
KNOWN = frozenset(("Float32", "Float16_b", "Bfp8_b", "Bfp4_b", "Int32", "UInt32", "UInt16", "UInt8"))
"""Formats that ttnn converts between."""


def converted(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """`x` of one data format in another; floats are then packed to it."""
    if FORMATS[target].is_float:
        return _to_float(x, source, target) if x.dtype.kind == "f" else _of_integer(x, target)
    return _to_integer(x, target) if x.dtype.kind == "f" else _among_integers(x, target)


def _to_float(x: Image, source: str, target: str) -> Image:
    pattern = bits(x)
    if source == "Float32" and target == "Float16_b":  # in whole numbers, so that the largest denormal becomes a number
        even = pattern.astype(np.int64) + 0x7FFF + (pattern >> 16 & 1)
        return from_bits(even & 0xFFFF0000)
    if source == "Float16_b" and target == "Float32":  # the way through SrcA knows neither NaN nor -0
        wide = np.where(np.isnan(x), np.copysign(np.float32(np.inf), x), x)
        return np.where(bits(wide) << 1 < 2 << 23, np.float32(0), wide)
    return x


def _of_integer(x: np.ndarray, target: str) -> Image:
    value = x.astype(np.float32)
    return to_mantissa(value, 7, "away") if FORMATS[target].kind == "block" else value


def _to_integer(x: Image, target: str) -> np.ndarray:
    size = np.where(np.isnan(x), np.inf, np.abs(x).astype(np.float64))
    value = np.where(np.signbit(x), -size, size)
    if target == "UInt8":
        size = np.where(size < 2.0**31, size, 0)
        return np.where(value < 0, -size.astype(np.int64), size.astype(np.int64)) & BYTE
    if target == "UInt16":
        return np.clip(np.floor(value + 0.5), 0, 0xFFFF).astype(np.int64)
    low, high = (0, 0xFFFFFFFF) if target == "UInt32" else (-(2**31), 2**31 - 1)
    return np.clip(np.trunc(value), low, high).astype(np.int64)


def _among_integers(x: np.ndarray, target: str) -> np.ndarray:
    if target == "UInt8":
        return x & BYTE
    return np.clip(x, 0, 0xFFFF) if target == "UInt16" else x
