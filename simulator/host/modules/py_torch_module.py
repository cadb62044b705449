"""PyTorch modules as modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.errors import NotThereYet
from opscope.simulator.host.modules.framework_module import FrameworkModule, input_specs
from opscope.simulator.host.parameter import Parameter
from opscope.simulator.host.tensor import array_of, to_torch


class PyTorchModule(FrameworkModule):
    """A `torch.nn.Module`, with its weights, in eval mode: a card runs what torchax makes of it, the CPU itself."""

    framework = "torch"

    def __init__(self, name: str, module: Any, redirect_forward: bool = True) -> None:
        """`redirect_forward` is ignored: the module's own `forward` stays as it is. Raises PyBudaError."""
        super().__init__(name, module)
        import torch

        if not isinstance(module, torch.nn.Module):
            self.refuse("a torch.nn.Module", type(module).__name__)

    def export(self, inputs: Sequence[np.ndarray]) -> ExportResult:
        """Traces the module with arrays in place of tensors."""
        from opscope.models.frontends import torch_live

        names = self.input_names
        return torch_live.export(self.module, input_specs(inputs, names), positional=not names)

    def compute(self, inputs: Sequence[Any], parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns what PyTorch computes; XLA, if parameters are given. Raises PyBudaError."""
        if parameters:
            return super().compute(inputs, parameters)
        from opscope.models.frontends import torch_live

        tensors = [to_torch(value) for value in inputs]
        return self.guarded(lambda: torch_live.eager(self.module, tensors, self.input_names))

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns what PyTorch computes: one tensor per output."""
        if kwargs:
            self.ordered(kwargs)
            args = tuple(kwargs[name] for name in self.input_names)
        return tuple(self.compute(args))

    def backward(self, *args: Any) -> None:
        """Comes with training."""
        raise NotThereYet(f"{self.name}.backward: expected inference, got training; try a PyBudaModule")

    def add_parameter(self, name: str, parameter: Parameter) -> None:
        """Adds a parameter to the module."""
        import torch

        self.module.register_parameter(name, torch.nn.Parameter(to_torch(array_of(parameter.value()))))

    def get_parameters(self) -> list[Parameter]:  # type: ignore[override]
        """Returns the module's parameters, by PyTorch's names."""
        return [
            Parameter(tensor.detach(), requires_grad=tensor.requires_grad, name=name)
            for name, tensor in self.module.named_parameters()
        ]

    def set_parameters(self, **kwargs: Any) -> None:
        """Sets parameters by name; a dot in a name is written as it is: `set_parameters(**{"a.b": value})`."""
        import torch

        held = dict(self.module.named_parameters())
        for name, value in kwargs.items():
            if name not in held or tuple(held[name].shape) != tuple(value.shape):
                shape = list(held[name].shape) if name in held else f"a parameter of {', '.join(held)}"[:200]
                self.refuse(f"{shape}", f"{name!r} of {list(value.shape)}")
            with torch.no_grad():
                held[name].copy_(to_torch(value))
        if (device := self.get_device()) is not None:
            device.forget()
