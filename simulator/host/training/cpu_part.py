"""A CPU device's part of training: PyTorch modules, differentiated by PyTorch and updated by PyTorch's optimizers."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.models.arguments import ArgSpec
from opscope.simulator.host.errors import PyBudaError, in_one_line
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.tensor import array_of, to_torch
from opscope.simulator.host.training.passes import Described

if TYPE_CHECKING:
    from opscope.simulator.host.modules.module import Module
    from opscope.simulator.host.training.part import Holder


class CpuPart:
    """Runs forward, backward and optimizer of a CPU device; tensors of a microbatch stay as they are in between.

    Its modules are in eval mode, as those of cards are. A microbatch goes through them at once.
    """

    microbatch = 1

    def __init__(
        self,
        device: Holder,
        samples: Sequence[np.ndarray],
        targets: int,
        loss: bool,
        input_gradients: bool,
        optimizer_f: Callable[[Any], Any] | None = None,
        scheduler_f: Callable[[Any], Any] | None = None,
    ) -> None:
        """`samples` are inputs and behind them `targets` targets. Raises PyBudaError for modules of no use."""
        self.name, self._input_gradients = device.name, input_gradients
        self._modules = [torch_module(device, module) for module in device.active]
        self._loss = torch_module(device, device.loss_module) if loss else None
        self._split = len(samples) - targets
        self.inputs = [ArgSpec(f"input.{i}", x.shape, x.dtype.name, "", "input") for i, x in enumerate(samples)]
        self._samples = list(samples)
        held = [*self._modules, *([self._loss] if self._loss is not None else [])]
        self._parameters = {name: p for module in held for name, p in module.module.named_parameters()}
        self.trained = tuple(name for name, p in self._parameters.items() if p.requires_grad)
        with in_one_line(f"{self.name}: optimizer_f"):
            self.optimizers = [optimizer_f(module.module) for module in self._modules] if optimizer_f else []
        with in_one_line(f"{self.name}: scheduler_f"):
            self.schedulers = [scheduler_f(one) for one in self.optimizers] if scheduler_f else []
        self._waiting: deque[tuple[list[Any], list[Any]]] = deque()
        self._outputs: list[Described] | None = None

    @property
    def waiting(self) -> int:
        """How many microbatches have run forward and not backward."""
        return len(self._waiting)

    @property
    def outputs(self) -> list[Described]:
        """Shape and element type of each output of its modules, for the next device."""
        if self._outputs is None:
            made = self._modules_of([to_torch(value) for value in self._samples[: self._split]])
            self._outputs = [(tuple(one.shape), array_of(one).dtype.name) for one in made]
        return self._outputs

    def forward(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs one microbatch forward and returns its outputs; with a loss module these are its losses."""
        tensors = [to_torch(np.array(value)) for value in inputs]
        for tensor in tensors[: self._split]:
            tensor.requires_grad_(self._input_gradients and tensor.is_floating_point())
        made = self._modules_of(tensors[: self._split])
        if self._loss is not None:
            made = self._eager(self._loss, [*made, *tensors[self._split :]])
        self._waiting.append((tensors[: self._split], made))
        return [array_of(one) for one in made]

    def backward(
        self, output_gradients: Sequence[np.ndarray] | None = None, zero_grad: bool = False
    ) -> dict[int, np.ndarray]:
        """Runs the oldest waiting microbatch backward, and adds its gradients to those so far, or to zero.

        Returns the gradient of each floating input by its number, for the device before. Raises RuntimeError if no
        microbatch has run forward.
        """
        import torch

        if not self._waiting:
            raise RuntimeError(f"{self.name}: expected a microbatch that has run forward, got none; try run_forward()")
        if zero_grad:
            for parameter in self._parameters.values():
                parameter.grad = None
        inputs, outputs = self._waiting.popleft()
        given = output_gradients or [np.ones(tuple(one.shape), np.float32) for one in outputs]
        pairs = [(one, to_torch(g).to(one.dtype)) for one, g in zip(outputs, given, strict=True) if one.requires_grad]
        for tensor in inputs:
            tensor.grad = None
        with in_one_line(self.name):
            # The graph stays, as a microbatch that failed on another device is run backward again.
            torch.autograd.backward([one for one, _ in pairs], [g for _, g in pairs], retain_graph=True)
        zeros = {i: torch.zeros_like(one) for i, one in enumerate(inputs) if one.requires_grad and one.grad is None}
        return {i: array_of(zeros.get(i, one.grad)) for i, one in enumerate(inputs) if one.requires_grad}

    def step(self) -> None:
        """Has the optimizers update the weights. Raises RuntimeError if a microbatch still waits."""
        if self._waiting:
            raise RuntimeError(
                f"{self.name}: expected every microbatch to have run backward, got {len(self._waiting)} that wait; "
                "try run_backward()"
            )
        with in_one_line(self.name):
            for optimizer in self.optimizers:
                optimizer.step()

    def schedule(self) -> None:
        """Has the schedules set the next learning rates."""
        with in_one_line(f"{self.name}: scheduler"):
            for scheduler in self.schedulers:
                scheduler.step()

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Returns a copy of each parameter, by name."""
        return {name: array_of(parameter).copy() for name, parameter in self._parameters.items()}

    def gradients(self) -> dict[str, np.ndarray]:
        """Returns a copy of each gradient so far, by the parameter's name; zeros before the first."""
        return {
            name: np.zeros(tuple(p.shape), np.float32) if p.grad is None else array_of(p.grad).copy()
            for name, p in ((name, self._parameters[name]) for name in self.trained)
        }

    def optimizer_state(self) -> dict[str, dict[str, np.ndarray]]:
        """Returns the learning rate of each parameter that an optimizer has."""
        named = {id(parameter): name for name, parameter in self._parameters.items()}
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        return {
            named[id(p)]: {"lr": np.float32(group["lr"])} for group in groups for p in group["params"] if id(p) in named
        }

    def update(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Replaces parameters. Raises ValueError for one that is not there, or of another shape."""
        import torch

        for name, value in parameters.items():
            held = self._parameters.get(name)
            if held is None or tuple(held.shape) != np.shape(value):
                wanted = "a parameter of this device" if held is None else f"shape {list(held.shape)}"
                raise ValueError(f"{self.name}.{name}: expected {wanted}, got {list(np.shape(value))}")
            with torch.no_grad():
                held.copy_(to_torch(np.asarray(value)))

    def kept(self) -> Any:
        """Returns all that changes: weights, gradients, states of optimizers, and microbatches that wait."""
        values = {
            name: (p.detach().clone(), None if p.grad is None else p.grad.clone())
            for name, p in self._parameters.items()
        }
        states = [copy.deepcopy(optimizer.state_dict()) for optimizer in self.optimizers]
        return values, states, tuple(self._waiting)

    def restore(self, kept: Any) -> None:
        """Goes back to what was `kept`."""
        values, states, waiting = kept
        for name, (value, grad) in values.items():
            self._parameters[name].data.copy_(value)  # of `data`, so that graphs of waiting microbatches stay good
            self._parameters[name].grad = grad
        for optimizer, state in zip(self.optimizers, states, strict=True):
            optimizer.load_state_dict(state)
        self._waiting = deque(waiting)

    def _modules_of(self, values: list[Any]) -> list[Any]:
        for module in self._modules:
            values = self._eager(module, values)
        return values

    def _eager(self, module: PyTorchModule, values: Sequence[Any]) -> list[Any]:
        return list(module.forward(*values))


def torch_module(device: Holder, module: Module | None) -> PyTorchModule:
    """Returns a module that PyTorch can train. Raises PyBudaError for one of another kind."""
    if not isinstance(module, PyTorchModule):
        raise PyBudaError(
            f"{device.name}: expected PyTorchModules to train on a CPU, got {type(module).__name__}; try a TTDevice"
        )
    return module
