"""Tensors of NumPy, PyTorch, JAX and ttnn as NumPy arrays, in their own element type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from opscope.harness.record.element_types import NUMPY_NAMES
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import TensorDesc
from opscope.harness.verdict.check import element_type

_BITS = {"bfloat16": np.int16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
"""Types of PyTorch that neither DLPack nor NumPy takes -> what their bits are read as."""


def as_array(tensor: Any, name: str) -> np.ndarray:
    """A tensor as an array, without a copy where that is possible: NumPy's own, what has `__array__` or DLPack (JAX,
    PyTorch), PyTorch's bfloat16 and float8 by their bits, ttnn's by way of PyTorch; Python's numbers as float64.

    Raises InputError for anything else, and for element types that MLIR has no name of.
    """
    array = _array(tensor, name)
    if array.dtype.name not in NUMPY_NAMES.values():
        expected = "a tensor of numbers or truth values"
        raise InputError(name, expected, f"{type(tensor).__name__} of {array.dtype}", "an array of float32 or bfloat16")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _array(tensor: Any, name: str) -> np.ndarray:
    if isinstance(tensor, np.ndarray | np.generic):
        return np.asarray(tensor)
    module = type(tensor).__module__.partition(".")[0]
    if module == "ttnn":
        import ttnn  # pyright: ignore[reportMissingImports]

        tensor, module = ttnn.to_torch(tensor), "torch"
    if module == "torch":
        return _of_torch(tensor)
    if isinstance(tensor, bool | int | float | complex | list | tuple) or hasattr(tensor, "__array__"):
        return np.asarray(tensor)
    if hasattr(tensor, "__dlpack__"):
        return np.from_dlpack(tensor)
    expected = "an array, or a tensor of NumPy, PyTorch, JAX or ttnn"
    raise InputError(name, expected, type(tensor).__name__, "numpy.asarray(...) of it")


def _of_torch(tensor: Any) -> np.ndarray:
    """A tensor of PyTorch, wherever it lies and whatever it is part of."""
    import torch  # pyright: ignore[reportMissingImports]

    plain = tensor.detach().cpu().contiguous()
    kind = str(plain.dtype).removeprefix("torch.")
    if kind not in _BITS:
        return plain.numpy()
    bits = plain.view(torch.int16 if _BITS[kind] is np.int16 else torch.uint8).numpy()
    return bits.view(getattr(ml_dtypes, kind))


def described(array: np.ndarray) -> TensorDesc:
    """Shape and element type, as records have them."""
    return TensorDesc(shape=array.shape, data_type=element_type(array.dtype))
