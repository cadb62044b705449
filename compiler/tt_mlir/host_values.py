"""Values of the host in the types that an executable of tt-mlir declares, and its results in those of the module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.compiler.target.program import TensorDesc


def declared_value(value: np.ndarray, desc: TensorDesc) -> np.ndarray:
    """An input as an executable takes it.

    Integers saturate in fewer bits, booleans become numbers, a complex number is its parts and a 64-bit one two words,
    low first, along a dim more.
    """
    dtype = host_dtype(desc.element_type)
    if value.ndim + 1 == len(desc.shape):
        parts = np.ascontiguousarray(value).reshape(-1).view(_part(value.dtype))
        return parts.astype(dtype).reshape(desc.shape)
    if dtype.kind in "iu" and value.dtype.kind in "iu":
        limits, own = np.iinfo(dtype), np.iinfo(value.dtype)
        value = np.clip(value, max(limits.min, own.min), min(limits.max, own.max))
    return value.astype(dtype)


def original_value(value: np.ndarray, dtype: np.dtype, shape: Sequence[int]) -> np.ndarray:
    """A result as the module's types have it."""
    if dtype == np.bool_:
        return value != 0
    if value.ndim == len(shape) + 1:
        return np.ascontiguousarray(value).astype(_part(dtype)).view(dtype).reshape(shape)
    return value.astype(dtype)


def _part(dtype: np.dtype) -> np.dtype:
    """Of what two numbers a number is made."""
    if dtype.kind == "c":
        return np.dtype(f"f{dtype.itemsize // 2}")
    return np.dtype(f"u{dtype.itemsize // 2}")
