"""A module's parameter: a weight, with a value or with a shape from which one is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash

from opscope.compiler.target.formats import host_dtype
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.enumerations import DataFormat
from opscope.simulator.host.tensor import Tensor, array_of, is_tensor, is_torch, to_torch, torch_type
from opscope.simulator.host.tensor_shape import TensorShape

HOST_TYPES = {"Float32": "f32", "Float16": "f16", "Float16_b": "bf16"}
"""Number format -> MLIR's name of the host's type of it; of other formats the value goes as it is."""


class Parameter:
    """A weight of a module.

        Parameter(1, 1, 32, 32, requires_grad=False)    a shape; its value is drawn, or set before it is needed
        Parameter(array)                                a value

    A drawn value is normal with deviation 1 / sqrt(terms of a sum of the product it stands in), so that products keep
    their size; of one dimension, 0.05. It follows from the parameter's name and shape alone: the same program draws the
    same values wherever it runs.
    """

    def __init__(
        self,
        *values: Any,
        requires_grad: bool = True,
        name: str | None = None,
        dev_data_format: DataFormat | None = None,
    ) -> None:
        """Raises PyBudaError if `values` are neither one array nor the sizes of a shape, or for no format."""
        if (len(values) == 1 and is_tensor(values[0])) or (len(values) == 1 and isinstance(values[0], Tensor)):
            self._held: Any = values[0]
            self._shape = TensorShape(*(int(n) for n in values[0].shape))
        else:
            sizes = tuple(values[0]) if len(values) == 1 and isinstance(values[0], tuple | list) else values
            if not sizes or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes):
                raise PyBudaError(f"Parameter: expected an array or the sizes of a shape, got {list(values)}")
            self._held, self._shape = None, TensorShape(*sizes)
        if dev_data_format is not None and not isinstance(dev_data_format, DataFormat):
            raise PyBudaError(f"Parameter: dev_data_format: expected a pybuda.DataFormat, got {dev_data_format!r}")
        self.requires_grad, self.fp32_fallback = requires_grad, dev_data_format
        self._name = name or ""

    @classmethod
    def create_from_torch(cls, torch_tensor: Any) -> Parameter:
        """Returns a parameter with the value of a PyTorch tensor."""
        return cls(torch_tensor, requires_grad=bool(getattr(torch_tensor, "requires_grad", True)))

    @property
    def shape(self) -> TensorShape:
        """Its sizes."""
        return self._shape

    @property
    def pt_data_format(self) -> Any:
        """The type of its value as PyTorch's; float32 without one. Raises PyBudaError without PyTorch."""
        return torch_type(self._held)

    @property
    def data_format(self) -> DataFormat | None:
        """The number format that was asked for, if any."""
        return self.fp32_fallback

    def get_name(self) -> str:
        """Returns its name: the given one, else `<module>.<attribute>`, '' before it belongs to a module."""
        return self._name

    def name_by_default(self, name: str) -> None:
        """Names a parameter that has no name."""
        self._name = self._name or name

    def has_value(self) -> bool:
        """Whether it was given a value, or has drawn one."""
        return self._held is not None

    def value(self, is_buda: bool = False) -> Any:
        """Returns its value, as it was given; draws one if it has none."""
        if self._held is None:
            self._held = self._drawn()
        return self._held.value() if isinstance(self._held, Tensor) else self._held

    def set_value(self, value: Any) -> None:
        """Sets its value. Raises PyBudaError for another shape."""
        array = array_of(value)
        if array.shape != self._shape:
            raise PyBudaError(
                f"{self._name or 'Parameter'}: expected a value of shape {list(self._shape)}, got {list(array.shape)}"
            )
        self._held = to_torch(value) if is_torch(self._held) else value

    def set_data_format(self, df: DataFormat) -> None:
        """Sets the number format in which a card reads it: of 16 or 32 bits, or narrower ones, which it rounds to.

        Raises PyBudaError for what is no format.
        """
        if not isinstance(df, DataFormat) or df is DataFormat.Invalid:
            raise PyBudaError(f"{self._name or 'Parameter'}.set_data_format: expected a pybuda.DataFormat, got {df!r}")
        self.fp32_fallback = df

    def set_requires_grad(self, value: bool) -> None:
        """Sets whether it is trained."""
        self.requires_grad = bool(value)

    def on_device(self) -> np.ndarray:
        """Returns its value in the type in which a card reads it."""
        array = array_of(self.value())
        wanted = HOST_TYPES.get(self.fp32_fallback.name, "") if self.fp32_fallback is not None else ""
        return array.astype(host_dtype(wanted)) if wanted and array.dtype.kind in "fV" else array

    def _drawn(self) -> np.ndarray:
        shape = self._shape
        key = xxhash.xxh64_intdigest(f"{self._name}:{shape}".encode())
        terms = shape[max(0, len(shape) - 2)] if len(shape) < 4 or shape[:2] == (1, 1) else math.prod(shape[1:])
        deviation = 0.05 if len(shape) < 2 else 1 / math.sqrt(max(terms, 1))
        generator = np.random.Generator(np.random.Philox(key=key))
        return generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)

    def __repr__(self) -> str:
        return f"Parameter({self._name or 'unnamed'}, {list(self._shape)})"


def get_pybuda_parameters_from_state_dict(state_dict: Mapping[str, Any]) -> dict[str, Parameter]:
    """Returns the tensors of a PyTorch module as parameters, by name; cards read them in whole tiles without more."""
    return {name: Parameter.create_from_torch(tensor) for name, tensor in state_dict.items()}
