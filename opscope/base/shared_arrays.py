"""Arrays in memory that two processes share: their elements there, their shapes and types as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy then knows bfloat16, float8_e4m3fn, ... by name
import numpy as np

from opscope.base.shared_block import MappedBlock, SharedBlock

_ALIGNMENT = 64


def write(arrays: Sequence[np.ndarray], block: SharedBlock) -> dict[str, Any]:
    """Writes arrays into a block and returns where they are, for `read`. Raises OSError if there is no memory."""
    places, end = [], 0
    for array in arrays:
        places.append({"shape": list(array.shape), "dtype": array.dtype.name, "at": end})
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    memory = block.reserve(end)
    for place, array in zip(places, arrays, strict=True):
        np.ndarray(array.shape, array.dtype, memory, place["at"])[...] = array
    return {"path": block.path, "size": block.size, "places": places}


def read(written: dict[str, Any], block: MappedBlock) -> list[np.ndarray]:
    """Returns copies of the arrays that `write` wrote in the other process. Raises OSError, ValueError, TypeError."""
    memory = block.at(written["path"], written["size"])
    return [
        np.ndarray(tuple(place["shape"]), np.dtype(place["dtype"]), memory, place["at"]).copy()
        for place in written["places"]
    ]
