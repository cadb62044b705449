"""The CPU as a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opscope.simulator.host.devices.device import Device
from opscope.simulator.host.errors import NoMeaningHere, PyBudaError
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.fitting import fitting
from opscope.simulator.host.microbatch import joined, one_by_one
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.tensor import Tensor, array_of, to_torch
from opscope.simulator.profile import Profile

if TYPE_CHECKING:
    from opscope.simulator.host.training.steps import TrainingPart


class XlaModule:
    """A module as a process can run it: exported for inputs of certain shapes."""

    def __init__(self, exported: Exported) -> None:
        self.profile: Profile | None = None
        self.exported, self.hosted = exported, exported.hosted
        self.values: dict[str, np.ndarray] = dict(exported.values)


class CPUDevice(Device):
    """Runs modules on the CPU: those of PyTorch as they are, all others by XLA."""

    def __init__(
        self,
        name: str,
        optimizer_f: Callable[..., Any] | None = None,
        scheduler_f: Callable[..., Any] | None = None,
        mp_context: Any = None,
        retain_backward_graph: bool = False,
        module: Module | list[Module] | None = None,
        input_dtypes: list[Any] | None = None,
    ) -> None:
        """For training, `optimizer_f` makes PyTorch's optimizer of a PyTorch module, and `scheduler_f` its schedule.

        Graphs of the backward pass are kept in any case; `input_dtypes` are ignored: inputs keep their types. Raises
        PyBudaError.
        """
        for what, value in (("optimizer_f", optimizer_f), ("scheduler_f", scheduler_f)):
            if value is not None and not callable(value):
                raise PyBudaError(f"{name}: {what}: expected a function, got {value!r}"[:300])
        if scheduler_f is not None and optimizer_f is None:
            raise PyBudaError(f"{name}: expected an optimizer_f with a scheduler_f, got none")
        self.optimizer_f, self.scheduler_f = optimizer_f, scheduler_f
        self.training: TrainingPart | None = None
        """Its part of the training that goes on, if any."""
        self._exported: dict[tuple[Any, ...], XlaModule] = {}
        super().__init__(name, mp_context)
        if module is not None:
            self.place_module(module)

    def run_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the modules on a microbatch: PyTorch's on all of it at once, the others on one input after the other.

        Raises PyBudaError.
        """
        return self._through(inputs, self.microbatch or 1, lambda module, one: self._run(module, one))

    def reference(self, inputs: Sequence[Any], size: int, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns what the CPU computes of its modules, as `run_inputs` does. Raises PyBudaError."""
        return self._through(inputs, size, lambda module, one: module.compute(one, parameters))

    def _through(
        self, inputs: Sequence[Any], size: int, run: Callable[[Module, Sequence[Any]], list[Any]]
    ) -> list[Any]:
        values = list(inputs)
        for module in self.modules:
            each = one_by_one(self.name, values, size if _by_xla(module) else 1)
            values = joined([run(module, one) for one in each])
        return values

    def can_be_sent(self) -> bool:
        """Whether XLA computes its modules; PyTorch's are live objects, which stay where they were made."""
        return all(map(_by_xla, self.modules))

    def forget(self) -> None:
        """Forgets what was exported."""
        super().forget()
        self._exported = {}

    def _run(self, module: Module, inputs: Sequence[Any]) -> list[Any]:
        """Returns what a module makes of one input, computed in its process if it has one."""
        if self.process is None:
            return module.compute(inputs)
        arrays = [array_of(value) for value in inputs]
        key = (module.name, *((array.shape, array.dtype.name) for array in arrays))
        program = self._exported.get(key)
        if program is None:
            program = self._exported[key] = XlaModule(module.exported(arrays))
        program.values |= {name: array_of(value) for name, value in module.held_values().items()}
        exported = program.exported
        results = self.run_there(program, fitting(module.name, arrays, exported.inputs))
        return results[: len(results) - len(exported.taps)]

    forward_pt = forward_tf = Device.forward
    cpueval_forward_pt = cpueval_forward_tf = Device.cpueval_forward

    def compile_for(  # type: ignore[override]
        self,
        inputs: tuple[Any, ...],
        compiler_cfg: Any,
        targets: list[Any] = [],
        microbatch_size: int = 0,
        microbatch_count: int = 1,
        verify_cfg: Any = None,
    ) -> tuple[Tensor, ...]:
        """Returns the outputs for these inputs, or for zeros of their shapes; with targets those of the loss module.

        Raises PyBudaError.
        """
        filled = [
            np.zeros(value.shape, np.float32) if isinstance(value, Tensor) and not value.has_value() else value
            for value in inputs
        ]
        values = self.run_inputs(filled)
        if targets:
            if self.loss_module is None:
                self.refuse("a loss module for targets", "none; try place_loss_module")
            values = self.loss_module.compute([*values, *targets])
        return tuple(Tensor(value) for value in values)

    compile_for_pt = compile_for

    def compile_for_tf(
        self,
        inputs: tuple[Any, ...],
        compiler_cfg: Any,
        targets: list[Any] = [],
        microbatch_size: int = 0,
        verify_cfg: Any = None,
    ) -> tuple[Tensor, ...]:
        """See `compile_for`."""
        return self.compile_for(inputs, compiler_cfg, targets)

    def pop_parameter_checkpoint(self) -> dict[str, Any]:
        """Returns the values of the parameters of its modules, by name."""
        return {p.get_name(): p.value() for module in self.modules for p in module.get_parameters()}

    def get_parameter_gradients(self) -> dict[str, Tensor]:
        """Returns the gradients so far of the parameters that require one, by name. Raises PyBudaError."""
        if self.training is None:
            self.refuse("training before get_parameter_gradients", "none; try initialize_pipeline(training=True)")
        return {name: Tensor(to_torch(value)) for name, value in self.training.gradients().items()}

    def update_parameters(self, parameters: dict[str, Any]) -> None:
        """Replaces parameters of its modules by name. Raises PyBudaError."""
        own = {parameter.get_name(): parameter for module in self.modules for parameter in module.get_parameters()}
        for name, value in parameters.items():
            if name not in own:
                self.refuse("a parameter of this device", repr(name))
            own[name].set_value(value)

    def set_debug_gradient_trace_queue(self, q: Any) -> None:
        """Raises NoMeaningHere: what goes back is in the queues of `initialize_pipeline`."""
        raise NoMeaningHere(f"{self.name}: expected d2d_bwd_queues of initialize_pipeline, got a queue for debugging")


def _by_xla(module: Module) -> bool:
    return type(module).compute is Module.compute
