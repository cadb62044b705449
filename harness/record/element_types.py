"""The table of MLIR and NumPy element types, and how arrays of them are stored in .npy files."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

from opscope.base import regular_file
from opscope.base.number_formats import ELEMENT_TYPES
from opscope.harness.record.signature import shorten

if TYPE_CHECKING:
    import numpy as np

MOST_DIMS = 64
"""Dims that an array of NumPy may have."""
NUMPY_NAMES = {name: row.numpy_name for name, row in ELEMENT_TYPES.items()} | {"tf32": "float32"}
"""MLIR's name of an element type -> the name in NumPy or ml_dtypes."""

TERM_SIZES = "bf16"
"""The type of stored sizes of terms: half the golden's bytes, and float32's range (float16 ends at 65504)."""

_NPY = b"\x93NUMPY\x01\x00"
"""How a .npy file of version 1 begins; two bytes with the length of its header follow."""
_LONGEST = 1000
"""Bytes of a header that is read here; one of a plain array has 118."""


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of an MLIR element type. Raises ValueError if NumPy and ml_dtypes have none."""
    if name not in NUMPY_NAMES:
        raise ValueError(f"element type: expected one of {', '.join(NUMPY_NAMES)}, got {name!r}")
    return ELEMENT_TYPES["f32" if name == "tf32" else name].numpy


def byte_size(shape: Sequence[int], name: str) -> int:
    """Bytes of a dense array in memory (sub-byte types take one byte an element); 0 if NumPy has no such type."""
    return math.prod(shape) * numpy_dtype(name).itemsize if name in NUMPY_NAMES else 0


def size_text(size: int) -> str:
    """A number of bytes as text, such as `15.3 GiB`."""
    for unit, words in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {words}"
    return f"{size} bytes"


def save(path: Path | BinaryIO, array: np.ndarray) -> None:
    """Writes a .npy file, given by path or open, without pickle.

    Types that NumPy lacks are stored as unsigned integers with the same bits.
    """
    import numpy as np

    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype.isbuiltin != 1:
        array = array.view(f"u{array.dtype.itemsize}")
    np.save(path, array, allow_pickle=False)


@lru_cache(maxsize=4096)
def _layout(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """Shape, whether columns come first, and type, as the header of a .npy file of version 1 says; None for another."""
    import numpy as np

    try:
        return np.lib.format.read_array_header_1_0(io.BytesIO(header))
    except (ValueError, EOFError, OverflowError, SyntaxError, TokenError):
        return None


def _plain(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray | None:
    """The array in a file that is as `save` writes it; None for any other, of which NumPy says what is wrong with it.

    Several times as fast as `np.load` for the small arrays of most ops, whose headers are mostly equal.
    """
    import numpy as np

    with path.open("rb") as file:
        start = file.read(len(_NPY) + 2)
        length = int.from_bytes(start[len(_NPY) :], "little")
        if not start.startswith(_NPY) or length > _LONGEST:
            return None
        stored_shape, by_column, stored = _layout(start[len(_NPY) :] + file.read(length)) or ((), True, dtype)
        if stored_shape != shape or by_column or stored.hasobject or stored.itemsize != dtype.itemsize:
            return None
        array = np.fromfile(file, stored, math.prod(shape))
        return array.view(dtype).reshape(shape) if array.size == math.prod(shape) else None


def load(path: Path, shape: Sequence[int], name: str) -> np.ndarray:
    """Reads what `save` wrote, as an array of MLIR element type `name`; a fresh copy, owned by the caller.

    Raises ValueError if the file holds another shape, a type of another width, or no array at all.
    """
    import numpy as np

    dtype = numpy_dtype(name)
    regular_file.check(path)
    plain = _plain(path, tuple(shape), dtype)
    if plain is not None:
        return plain
    try:
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OverflowError, SyntaxError, TokenError) as error:  # what its header leads NumPy to
        got = shorten(str(error), 120)
        raise ValueError(f"{path}: expected an array that opscope stored, got {got}; try preparing again") from error
    if not isinstance(stored, np.ndarray):  # the bytes are an archive's
        stored.close()
        raise ValueError(f"{path}: expected an array that opscope stored, got an archive; try preparing again")
    if stored.shape != tuple(shape) or stored.dtype.itemsize != dtype.itemsize:
        expected = f"{tuple(shape)} of {name}"
        raise ValueError(f"{path}: expected {expected}, got {stored.shape} of {stored.dtype}; try preparing again")
    return np.array(stored, copy=True, order="C").view(dtype).reshape(tuple(shape))
