"""The parameters of PyTorch modules."""

from __future__ import annotations

from typing import Any

from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.tensor import array_of, to_torch


class TorchParameter(Parameter):
    """A tensor that a PyTorch module holds: a new value goes into it, so that the module has it too."""

    def __init__(self, name: str, tensor: Any) -> None:
        super().__init__(tensor.detach(), requires_grad=bool(tensor.requires_grad), name=name)

    def set_value(self, value: Any) -> None:
        """Sets its elements. Raises PyBudaError for another shape."""
        array = array_of(value)
        if array.shape != self.shape:
            raise PyBudaError(
                f"{self.get_name()}: expected a value of shape {list(self.shape)}, got {list(array.shape)}"
            )
        self.value().copy_(to_torch(array))
