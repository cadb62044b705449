"""PyTorch modules as modules, with their parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from opscope.models.frontends.base import ExportResult
from opscope.simulator.host.errors import PyBudaError, in_one_line
from opscope.simulator.host.modules.framework_module import FrameworkModule, input_specs
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
        with _no_gradients_kept():
            return torch_live.export(self.module, input_specs(inputs, names), positional=not names)

    def function(self) -> Callable[[Mapping[str, Any], Sequence[Any]], Sequence[Any]]:
        """Returns it as a function that JAX traces and differentiates: parameters by name, and inputs -> outputs."""
        from opscope.models.frontends import torch_live

        traced = torch_live.function(self.module)

        def function(parameters: Mapping[str, Any], inputs: Sequence[Any]) -> Sequence[Any]:
            with _whole_classes(self.module), _no_gradients_kept():
                return traced(parameters, inputs)

        return function

    def all_parameters(self) -> list[Parameter]:
        """Returns parameters, and running statistics, which no optimizer trains."""
        from opscope.models.frontends import torch_live

        return [TorchParameter(name, tensor) for name, tensor in torch_live.tensors(self.module).items()]

    def compute(self, inputs: Sequence[Any], parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns what PyTorch computes; XLA, if parameters are given. Raises PyBudaError."""
        if parameters:
            return super().compute(inputs, parameters)
        import torch

        with torch.no_grad():
            return self._eager(inputs)

    def _eager(self, inputs: Sequence[Any]) -> list[Any]:
        from opscope.models.frontends import torch_live

        tensors = [to_torch(value) for value in inputs]
        with in_one_line(self.name), _whole_classes(self.module), _no_gradients_kept():
            return torch_live.eager(self.module, tensors, self.input_names)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Returns what PyTorch computes: one tensor per output, which `backward` can take."""
        if kwargs:
            self.ordered(kwargs)
            args = tuple(kwargs[name] for name in self.input_names)
        return tuple(self._eager(args))

    def backward(self, *args: Any) -> None:
        """Has PyTorch add gradients to the module's parameters: of each pair, an output of `forward` and its gradient.

        Raises PyBudaError.
        """
        pairs = [pair for arg in args for pair in (arg if isinstance(arg, list) else [arg])]
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                self.refuse("pairs of an output and its gradient", f"{pair!r}"[:100])
        with in_one_line(self.name):
            for output, gradient in pairs:
                output.backward(to_torch(gradient), retain_graph=True)

    def add_parameter(self, name: str, parameter: Parameter) -> None:
        """Adds a parameter to the module."""
        import torch

        self.module.register_parameter(name, torch.nn.Parameter(to_torch(array_of(parameter.value()))))

    def get_parameters(self) -> list[Parameter]:
        """Returns the module's parameters, by PyTorch's names."""
        return [TorchParameter(name, tensor) for name, tensor in self.module.named_parameters()]

    def set_parameters(self, **kwargs: Any) -> None:
        """Sets parameters by name; a dot in a name is written as it is: `set_parameters(**{"a.b": value})`."""
        import torch

        own = dict(self.module.named_parameters())
        for name, value in kwargs.items():
            if name not in own or tuple(own[name].shape) != tuple(value.shape):
                shape = list(own[name].shape) if name in own else f"a parameter of {', '.join(own)}"[:200]
                self.refuse(f"{shape}", f"{name!r} of {list(value.shape)}")
            with torch.no_grad():
                own[name].copy_(to_torch(value))
        if (device := self.get_device()) is not None:
            device.forget()


@contextmanager
def _whole_classes(module: Any) -> Iterator[None]:
    """Within this context numbers of classes may come as floats, as a sample of targets says that they do.

    Targets of the shape of the predictions are probabilities, and stay as they are.
    """
    import torch

    def whole(_: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        predicted, targets, *others = arguments
        if targets.is_floating_point() and targets.shape != predicted.shape:
            with warnings.catch_warnings():  # JAX has int32 for it, and says so
                warnings.simplefilter("ignore", UserWarning)
                targets = targets.long()
        return (predicted, targets, *others)

    with ExitStack() as hooks:
        for part in module.modules():
            if isinstance(part, torch.nn.CrossEntropyLoss | torch.nn.NLLLoss):
                hooks.callback(part.register_forward_pre_hook(whole).remove)
        yield


@contextmanager
def _no_gradients_kept() -> Iterator[None]:
    """Within this context a `forward` may ask to keep a gradient where PyTorch records none: JAX differentiates."""
    import torch

    def retain_grad(tensor: Any) -> None:
        if tensor.requires_grad:
            super(torch.Tensor, tensor).retain_grad()

    own: Any = torch.Tensor
    own.retain_grad = retain_grad
    try:
        yield
    finally:
        del own.retain_grad
