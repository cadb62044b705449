"""Arrays of types that NumPy lacks (bfloat16, 8-bit floats), as .npy and .npz files hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def as_type(array: np.ndarray, expected: np.dtype) -> np.ndarray:
    """An array from a file as the type that is expected, where the file can only hold its bits.

    NumPy writes such an array as raw bytes (`V2`), other programs write unsigned integers of its width.
    """
    lacks_name = expected.isbuiltin != 1 and array.dtype.kind == "u"
    if (array.dtype.kind == "V" or lacks_name) and array.dtype.itemsize == expected.itemsize:
        return array.view(expected)
    return array
