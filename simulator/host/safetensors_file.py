"""Tensors by name as bytes in the format of safetensors: a length, a JSON header, the elements.

Written here and not by the package, which is optional: a device that runs an image has NumPy alone. The format:
huggingface.co/docs/safetensors. There is nothing in it that could be executed.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from opscope.compiler.target.formats import host_dtype
from opscope.simulator.host.errors import ImageError

_LENGTH = struct.Struct("<Q")
LARGEST_HEADER = 100_000_000
"""Bytes of a header that the format allows."""
ALIGNMENT = 8
"""Headers are filled up with spaces to a multiple of it."""
TYPES = {
    "f64": "F64",
    "f32": "F32",
    "f16": "F16",
    "bf16": "BF16",
    "i64": "I64",
    "i32": "I32",
    "i16": "I16",
    "i8": "I8",
    "ui64": "U64",
    "ui32": "U32",
    "ui16": "U16",
    "ui8": "U8",
    "i1": "BOOL",
    "f8E4M3FN": "F8_E4M3",
    "f8E5M2": "F8_E5M2",
}
"""MLIR element type -> the format's name."""
_ELEMENT_TYPES = {word: name for name, word in TYPES.items()}


def encode(tensors: Mapping[str, tuple[str, np.ndarray]]) -> list[bytes | memoryview]:
    """Returns the pieces of a file with these tensors: name -> element type and array.

    Raises ImageError for an element type that the format has not.
    """
    header: dict[str, Any] = {}
    pieces: list[bytes | memoryview] = []
    at = 0
    for name, (element_type, array) in tensors.items():
        if element_type not in TYPES:
            raise ImageError(
                f"tensors.{name}: expected an element type of safetensors, got {element_type}; try {', '.join(TYPES)}"
            )
        data: Any = np.ascontiguousarray(array, host_dtype(element_type))
        header[name] = {
            "dtype": TYPES[element_type],
            "shape": list(np.shape(array)),
            "data_offsets": [at, at + data.nbytes],
        }
        pieces.append(memoryview(data.reshape(-1).view(np.uint8)))
        at += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return [_LENGTH.pack(len(text)), text, *pieces]


def decode(where: str, data: bytes | bytearray | memoryview) -> dict[str, tuple[str, np.ndarray]]:
    """Returns the tensors of a file: name -> element type and an array over its bytes, which cannot be written.

    Raises ImageError for anything else: a header that is none, or tensors that overlap or do not fill the file.
    """
    view = memoryview(data).toreadonly()
    length = _LENGTH.unpack_from(view)[0] if len(view) >= _LENGTH.size else -1
    start = _LENGTH.size + length
    if not 2 <= length <= LARGEST_HEADER or start > len(view):
        raise ImageError(f"{where}: expected the header of a safetensors file, got {len(view)} bytes without one")
    try:
        header = json.loads(bytes(view[_LENGTH.size : start]))
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{where}: expected a header in JSON, got {type(error).__name__}") from error
    if not isinstance(header, dict):
        raise ImageError(f"{where}: expected a header of names, got {type(header).__name__}")
    header.pop("__metadata__", None)
    tensors, end = {}, 0
    for name, row in sorted(header.items(), key=lambda item: _start(item[1])):
        element_type, shape, begin, stop = _row(f"{where}: {name}", row)
        dtype = host_dtype(element_type)
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize or start + stop > len(view):
            raise ImageError(
                f"{where}: {name}: expected {math.prod(shape) * dtype.itemsize} bytes from {end}, got {begin} to {stop}"
            )
        end = stop
        tensors[name] = element_type, np.frombuffer(view[start + begin : start + stop], dtype).reshape(shape)
    if start + end != len(view):
        raise ImageError(f"{where}: expected {start + end} bytes, got {len(view)}")
    return tensors


def _start(row: Any) -> int:
    offsets = row.get("data_offsets") if isinstance(row, dict) else None
    first = offsets[0] if isinstance(offsets, list) and offsets else -1
    return first if type(first) is int else -1


def _row(where: str, row: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Returns element type, shape, and where the elements begin and end."""
    match row:
        case {"dtype": str(word), "shape": list(shape), "data_offsets": [begin, stop]} if (
            word in _ELEMENT_TYPES and all(type(n) is int and n >= 0 for n in (*shape, begin, stop)) and begin <= stop
        ):
            return _ELEMENT_TYPES[word], tuple(shape), begin, stop
    raise ImageError(f"{where}: expected dtype, shape and data_offsets, got {str(row)[:80]}")
