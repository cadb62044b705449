"""The base of all devices: modules in a row, a queue of inputs, a queue of targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from opscope.simulator.host import session
from opscope.simulator.host.argument_checks import count
from opscope.simulator.host.devices.input_queue import InputQueue
from opscope.simulator.host.devices.process_commands import ProcessCommands
from opscope.simulator.host.errors import DeviceDied, PyBudaError
from opscope.simulator.host.hosted_program import Sendable
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.processes.device_process import DeviceProcess
from opscope.simulator.host.tensor import Tensor, array_of, is_tensor

if TYPE_CHECKING:
    from opscope.simulator.host.training.cpu_evaluation import CpuEvaluation


class Device(ProcessCommands):
    """Something that runs modules: one or more cards, or the CPU. Devices form a pipeline in the order of creation."""

    def __init__(self, name: str, mp_context: Any = None) -> None:
        """`mp_context` is ignored. Raises PyBudaError for a name that is none or is taken."""
        if not isinstance(name, str) or not name:
            raise PyBudaError(f"{type(self).__name__}: expected a name first, got {name!r}")
        self.name = name
        self.modules: list[Module] = []
        self.loss_module: Module | None = None
        self.inputs, self.targets = InputQueue(), InputQueue()
        self.closed = False
        self.process: DeviceProcess | None = None
        """Its own process, while a pipeline runs it there."""
        self._evaluation: CpuEvaluation | None = None
        """The input that `cpueval_forward` has saved."""
        session.add_device(self)

    def get_name(self) -> str:
        """Returns its name."""
        return self.name

    def place_module(self, module: Module | tuple[Module, ...] | list[Module]) -> None:
        """Places one module or several, which run in a row, behind those that are there. Raises PyBudaError."""
        self.check_open("place_module")
        placed = list(module) if isinstance(module, tuple | list) else [module]
        for one in placed:
            if not isinstance(one, Module):
                self.refuse("a module, such as pybuda.PyBudaModule or PyTorchModule", type(one).__name__)
            if (device := one.get_device()) is not None:
                self.refuse("a module that is on no device", f"{one.get_name()}, which is on {device.name}")
            if any(one.get_name() == other.get_name() for other in self.modules):
                self.refuse("modules with names of their own", f"{one.get_name()!r} twice")
            one.set_device(self)
            self.modules.append(one)
        self.forget()

    def place_loss_module(self, module: Module) -> None:
        """Places the module that computes the loss. Raises PyBudaError."""
        self.check_open("place_loss_module")
        if not isinstance(module, Module):
            self.refuse("a loss module", type(module).__name__)
        self.loss_module = module
        module.set_device(self)

    def remove_loss_module(self) -> None:
        """Removes the loss module, if there is one."""
        if self.loss_module is not None:
            self.loss_module.set_device(None)
        self.loss_module = None

    def remove_modules(self) -> None:
        """Removes every module, and what was pushed."""
        for module in self.modules:
            module.set_device(None)
        self.modules = []
        self.inputs.clear()
        self.forget()

    def push_to_inputs(self, *tensors: Any) -> None:
        """Pushes the inputs of one run: in order, as one tuple or list, or by name in a dictionary.

        Blocks while the queue is full and a run takes from it. Raises PyBudaError for anything that is no tensor, for
        inputs that do not fit what was compiled, and after a shutdown, and what the run has failed with.
        """
        self.check_open("push_to_inputs")
        inputs = arranged(self, tensors)
        self.check_inputs(inputs)
        session.check_run()
        self.inputs.put(inputs, session.takes_inputs)

    def push_to_target_inputs(self, *tensors: Any) -> None:
        """Pushes the targets of one run, for the loss module. Raises PyBudaError."""
        self.check_open("push_to_target_inputs")
        self.targets.put(arranged(self, tensors), session.is_running)

    def sync(self) -> None:
        """Waits until what was asked for has run. Raises what the run raised."""
        session.wait()

    def generate(self, loop_count: int, write_index: int) -> list[Any]:
        """Runs `loop_count` inputs forward and returns their outputs; nothing is kept between them.

        TT-Buda writes past caches at `write_index`. A module here has none, so that it must be 0. Raises PyBudaError.
        """
        if write_index != 0:
            self.refuse("write_index 0, as no module here has past caches", f"{write_index}")
        return self.forward(loop_count)

    def forward(self, loop_count: int) -> list[Any]:
        """Takes `loop_count` inputs, runs the modules on each, and returns the outputs. Raises PyBudaError."""
        outputs = []
        for _ in range(count(f"{self.name}: loop_count", loop_count, 0)):
            inputs = self.inputs.take(lambda: True)
            if inputs is None:
                self.refuse(f"{loop_count} inputs", f"{len(outputs)}; try push_to_inputs")
            outputs.append(self.run_inputs(inputs))
        return outputs

    def backward(self, loop_count: int, zero_grad: bool) -> None:
        """Raises PyBudaError: a backward pass begins at the last device."""
        self.refuse("run_backward(), which begins at the loss", "backward() of one device")

    def get_first_inputs(self, peek: bool = False) -> tuple[Any, ...] | None:
        """Returns the oldest inputs, and removes them unless `peek`; None if there are none."""
        return _first(self.inputs, peek)

    def get_first_targets(self) -> tuple[Any, ...] | None:
        """Returns and removes the oldest targets; None if there are none."""
        return _first(self.targets, False)

    def cpueval_forward(
        self,
        inputs: list[Any],
        parameters: dict[str, Any],
        save_for_backward: bool,
        targets: list[Any] = [],
    ) -> list[Any]:
        """Returns what the CPU computes of its modules, with these values of parameters. Raises PyBudaError.

        With `targets` the loss module's result, which it needs. `save_for_backward` keeps the input for
        `cpueval_backward`; it and `targets` need modules in TT-Buda's ops.
        """
        if save_for_backward or targets:
            from opscope.simulator.host.training.cpu_evaluation import CpuEvaluation

            evaluation = CpuEvaluation(self, inputs, targets)
            outputs = evaluation.forward(parameters)
            self._evaluation = evaluation if save_for_backward else self._evaluation
            return outputs
        values: list[Any] = list(inputs)
        for module in self.modules:
            values = module.compute(values, parameters)
        return values

    def cpueval_backward(
        self, bw_inputs: list[Any], parameters: dict[str, Any]
    ) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Returns the gradients of the inputs that were saved (None of integers), and of parameters, by name.

        `bw_inputs` has the gradient of each output. Raises PyBudaError if `cpueval_forward` has saved no input.
        """
        if self._evaluation is None:
            self.refuse("cpueval_forward(..., save_for_backward=True) before cpueval_backward", "none")
        return self._evaluation.backward(bw_inputs, parameters)

    @property
    def active(self) -> list[Module]:
        """The modules that run, in order."""
        return self.modules

    def compile_for(self, training: bool, microbatch_size: int = 0, microbatch_count: int = 1) -> None:
        """Compiles for the oldest inputs. Sizes of microbatches are those of the inputs. Raises PyBudaError."""
        if training:
            self.refuse("a TTDevice, with the targets of its compile_for", "training")
        first = self.inputs.first()
        if first is None:
            self.refuse("an input that was pushed", "none; try push_to_inputs")
        self.compile_modules([array_of(value) for value in first])

    # --- what a run needs of it

    def run_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the modules on one input. Raises PyBudaError."""
        raise NotImplementedError(f"{type(self).__name__}.run_inputs")

    def compile_modules(self, inputs: Sequence[np.ndarray]) -> None:
        """Compiles its modules for inputs like these, unless that has been done."""

    def forget(self) -> None:
        """Forgets what was compiled."""
        if self.process is not None:
            self.process.forget()

    # --- its process

    def can_be_sent(self) -> bool:
        """Whether a process of its own can run its modules: what they are compiled to, not the modules themselves."""
        return True

    def start_process(self) -> None:
        """Has its modules run in a process of its own, if they can. Raises PyBudaError if the one it has has ended."""
        self.check_process()
        if self.process is None and self.can_be_sent():
            self.process = DeviceProcess(self.name)

    def end_process(self) -> None:
        """Ends its process, if it has one; modules then run in this process."""
        process, self.process = self.process, None
        if process is not None:
            process.close()

    def check_process(self) -> None:
        """Raises DeviceDied, once, if its process has ended."""
        if self.process is not None:
            with self._noticing():
                self.process.check()

    def run_there(self, program: Sendable, inputs: Sequence[np.ndarray], profile: bool = False) -> list[np.ndarray]:
        """Returns what its process computes. Raises DeviceDied, PyBudaError."""
        assert self.process is not None
        with self._noticing():
            return self.process.run(program, inputs, profile)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """Gives a process up that has ended, so that the next run starts another."""
        try:
            yield
        except DeviceDied:
            self.end_process()
            raise

    def check_inputs(self, inputs: Sequence[Any]) -> None:
        """Raises PyBudaError for inputs that do not fit what was compiled."""

    def check_open(self, what: str) -> None:
        """Raises PyBudaError after a shutdown."""
        if self.closed:
            self.refuse(f"{what} before shutdown()", "it after; try a new device")

    def shutdown_device(self) -> None:
        """Ends its use, and its process; modules can be placed elsewhere."""
        self.end_process()
        for module in [*self.modules, *([self.loss_module] if self.loss_module else [])]:
            module.set_device(None)
        self.inputs.clear()
        self.targets.clear()
        self.closed = True

    def refuse(self, expected: str, got: str) -> NoReturn:
        """Raises PyBudaError in its name."""
        raise PyBudaError(f"{self.name}: expected {expected}, got {got}")


def arranged(device: Device, tensors: Sequence[Any]) -> list[Any]:
    """Returns the inputs of one run in order. Raises PyBudaError."""
    values: Any = tensors
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list | Mapping):
        values = tensors[0]
    if isinstance(values, Mapping):
        if not device.modules:
            device.refuse("a module, whose inputs have names", "none; try place_module")
        values = device.modules[0].ordered(values)
    for value in values:
        if not isinstance(value, Tensor) and not is_tensor(value):
            device.refuse("tensors", type(value).__name__)
    return list(values)


def _first(queued: InputQueue, peek: bool) -> tuple[Any, ...] | None:
    entry = queued.first() if peek else queued.take(lambda: True)
    return None if entry is None else tuple(entry)
