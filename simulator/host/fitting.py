"""Whether inputs fit what a module takes: their number, shapes and types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.models.arguments import ArgSpec
from opscope.simulator.host.errors import PyBudaError


def fitting(where: str, arrays: Sequence[np.ndarray], wanted: Sequence[ArgSpec]) -> list[np.ndarray]:
    """Returns inputs in the types that a module takes. Raises PyBudaError for a wrong number, shape or type."""
    if len(arrays) != len(wanted):
        raise PyBudaError(f"{where}: expected {len(wanted)} inputs, got {len(arrays)}")
    fits = []
    for number, (array, spec) in enumerate(zip(arrays, wanted, strict=True)):
        if array.shape != spec.shape:
            raise PyBudaError(f"{where}: input {number}: expected shape {list(spec.shape)}, got {list(array.shape)}")
        fits.append(of_type(f"{where}: input {number}", array, spec.dtype))
    return fits


def of_type(where: str, array: np.ndarray, name: str) -> np.ndarray:
    """Returns an array in another type of the same kind: floats, integers or booleans. Raises PyBudaError."""
    wanted = host_dtype_of(name)
    if array.dtype == wanted:
        return array
    if _kind(array.dtype) != _kind(wanted):
        raise PyBudaError(f"{where}: expected {wanted}, got {array.dtype}")
    made = array.astype(wanted)
    if wanted.kind in "iu" and not np.array_equal(made, array):
        raise PyBudaError(f"{where}: expected numbers that {wanted} holds, got {array.min()} to {array.max()}")
    return made


def host_dtype_of(name: str) -> np.dtype:
    """Returns the type that NumPy or ml_dtypes calls `name`."""
    if name in ("bfloat16",) or name.startswith("float8"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def _kind(dtype: np.dtype) -> str:
    return {"u": "i", "V": "f"}.get(dtype.kind, dtype.kind)
