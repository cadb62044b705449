"""The values of a buffer in host memory whose type Python's buffers lack, such as bfloat16, by way of DLPack.

The client's own way to them imports JAX, for half a second of each process that has one such value.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_CPU = 1
"""DLPack's number of a device whose memory is the host's."""


class _Tensor(ctypes.Structure):
    """What a capsule of DLPack begins with (dlpack.h, `DLTensor`)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def host_copy(capsule: Any, dtype: np.dtype) -> np.ndarray:
    """A copy of the values of a capsule of DLPack that nobody has used, in their type. Raises ValueError where they are
    not in host memory, row by row and each in bytes of its own."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    like = np.empty(shape, np.dtype(f"V{dtype.itemsize}"))
    if tensor.device_type != _CPU or (tensor.bits, tensor.lanes) != (8 * dtype.itemsize, 1):
        raise ValueError("another memory, or numbers that share bytes")
    if not like.size:
        return like.view(dtype)
    steps = tensor.strides[: tensor.ndim] if tensor.strides else [each // dtype.itemsize for each in like.strides]
    if any(step * dtype.itemsize != own for step, own, n in zip(steps, like.strides, shape, strict=True) if n > 1):
        raise ValueError("another order of elements")
    ctypes.memmove(like.ctypes.data, tensor.data + tensor.byte_offset, like.nbytes)
    return like.view(dtype)
