"""Tensors that go in and out: NumPy arrays, JAX arrays, PyTorch tensors, and TT-Buda's own wrapper of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.enumerations import DataFormat
from opscope.simulator.host.tensor_shape import TensorShape


def is_tensor(value: Any) -> bool:
    """Whether `value` is an array of NumPy, JAX or PyTorch, without importing any of them."""
    return isinstance(value, np.ndarray | np.generic) or (hasattr(value, "dtype") and hasattr(value, "shape"))


def is_torch(value: Any) -> bool:
    """Whether `value` is a PyTorch tensor, or wraps one."""
    torch = sys.modules.get("torch")
    elements = value.elements if isinstance(value, Tensor) else value
    return torch is not None and isinstance(elements, torch.Tensor)


def array_of(value: Any) -> np.ndarray:
    """Returns the elements as a NumPy array. Raises PyBudaError for anything that is no array of numbers."""
    if isinstance(value, Tensor):
        value = value.elements
    if value is None:
        raise PyBudaError("tensor: expected elements, got a tensor without a value; try set_value")
    if is_torch(value):
        on_cpu = value.detach().cpu().to_dense()  # of a sparse one all elements
        if str(on_cpu.dtype) == "torch.bfloat16":  # NumPy has no such type of its own
            import ml_dtypes

            return on_cpu.float().numpy().astype(ml_dtypes.bfloat16)
        return on_cpu.numpy()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise PyBudaError(f"tensor: expected an array of numbers, got {type(value).__name__}") from error
    # Types of ml_dtypes (bfloat16) are of kind V and have no fields.
    if array.dtype.kind not in "fiubV" or array.dtype.names:
        raise PyBudaError(f"tensor: expected an array of numbers, got {type(value).__name__} of {array.dtype}")
    return array


class Tensor:
    """A tensor of TT-Buda: a shape, a number format, and elements, if it has any."""

    def __init__(self, value: Any, dev_data_format: DataFormat | None = None) -> None:
        """`value` is an array, or a shape of a tensor without elements. Raises PyBudaError for anything else."""
        self.elements = value if is_tensor(value) else None
        sizes = value.shape if is_tensor(value) else value
        if not isinstance(sizes, tuple | list) or not all(isinstance(n, int | np.integer) and n >= 0 for n in sizes):
            raise PyBudaError(f"Tensor: expected an array or the sizes of a shape, got {value!r}"[:300])
        self._shape = TensorShape(*(int(n) for n in sizes))
        self.data_format = dev_data_format

    @classmethod
    def create_from_torch(cls, torch_tensor: Any, dev_data_format: DataFormat | None = None, **_: Any) -> Tensor:
        """Returns a tensor of PyTorch's, or of any other array's elements."""
        return cls(torch_tensor, dev_data_format)

    @property
    def shape(self) -> TensorShape:
        """Its sizes."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The type of its elements, as the array that it holds names it."""
        return getattr(self.elements, "dtype", None)

    @property
    def pt_data_format(self) -> Any:
        """The type that its elements have as PyTorch's; float32 without them. Raises PyBudaError without PyTorch."""
        return torch_type(self.elements)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    def has_value(self) -> bool:
        """Whether it has elements."""
        return self.elements is not None

    def set_value(self, value: Any) -> None:
        """Sets the elements. Raises PyBudaError for another shape."""
        if tuple(value.shape) != self._shape:
            raise PyBudaError(f"tensor: expected shape {list(self._shape)}, got {list(value.shape)}")
        self.elements = value

    def value(self) -> Any:
        """Returns the elements: a PyTorch tensor where PyTorch tensors went in, else an array."""
        return self.elements

    def numpy(self) -> np.ndarray:
        """Returns the elements as a NumPy array."""
        return array_of(self)

    def to_pytorch(self) -> Any:
        """Returns the elements as a PyTorch tensor. Raises PyBudaError where PyTorch is not installed."""
        return to_torch(self.elements)

    to_torch = to_pytorch

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = array_of(self)
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        shown = "without a value" if self.elements is None else repr(self.elements)
        return f"Tensor{list(self._shape)}: {shown}"


def to_pt_tensors(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Returns tensors as those of PyTorch. Raises PyBudaError where PyTorch is not installed."""
    return tuple(to_torch(value.elements if isinstance(value, Tensor) else value) for value in tensors)


def torch_type(value: Any) -> Any:
    """Returns PyTorch's type of an array, float32 of None. Raises PyBudaError where PyTorch is not installed."""
    return to_torch(np.empty(0, np.float32) if value is None else value).dtype


def to_torch(value: Any) -> Any:
    """Returns a PyTorch tensor of an array. Raises PyBudaError where PyTorch is not installed."""
    if is_torch(value):
        return value
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise PyBudaError("to_pytorch: expected PyTorch, got none; try numpy(), or pip install torch") from None
    array = array_of(value)
    if array.dtype.kind == "V" or array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
