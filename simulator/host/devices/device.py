"""The base of all devices: modules in a row, a queue of inputs, a queue of targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from opscope.simulator.host import session
from opscope.simulator.host.argument_checks import count
from opscope.simulator.host.devices.commands import Commanded
from opscope.simulator.host.devices.input_queue import InputQueue
from opscope.simulator.host.errors import DeviceDied, PyBudaError
from opscope.simulator.host.hosted_program import Sendable
from opscope.simulator.host.microbatch import joined, one_by_one, size_of
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.processes.device_process import DeviceProcess
from opscope.simulator.host.tensor import Tensor, array_of, is_tensor

if TYPE_CHECKING:
    from opscope.simulator.host.training.cpu_evaluation import CpuEvaluation


class Device(Commanded):
    """Something that runs modules: one or more cards, or the CPU. Devices form a pipeline in the order of creation."""

    def __init__(self, name: str, mp_context: Any = None) -> None:
        """`mp_context` is ignored. Raises PyBudaError for a name that is none or is taken."""
        if not isinstance(name, str) or not name:
            raise PyBudaError(f"{type(self).__name__}: expected a name first, got {name!r}")
        super().__init__()
        self.name = name
        self.modules: list[Module] = []
        self.loss_module: Module | None = None
        self.inputs, self.targets = InputQueue(), InputQueue()
        self.closed = False
        self.process: DeviceProcess | None = None
        """Its own process, while a pipeline runs it there."""
        self.microbatch = 0
        """How many inputs each push brings; 0 before the first push, or before it is compiled."""
        self._first_inputs: list[Any] | None = None
        self._first_targets: list[Any] | None = None
        self._evaluations: list[CpuEvaluation] = []
        """The inputs of a microbatch that `cpueval_forward` has saved."""
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
        self.forget_first()
        self.forget()

    def push_to_inputs(self, *tensors: Any) -> None:
        """Pushes a microbatch: in order, as one tuple or list, or by name in a dictionary.

        Its leading dimension counts the inputs, of which a card computes one after the other. Blocks while the queue is
        full and a run takes from it. Raises PyBudaError for anything that is no tensor, for inputs that do not fit what
        was compiled, or the size of the microbatch before, and after a shutdown, and what the run has failed with.
        """
        self.check_open("push_to_inputs")
        inputs = arranged(self, tensors)
        self.check_inputs(inputs)
        session.check_run()
        self.settle_microbatch(inputs)
        self._first_inputs = self._first_inputs or inputs
        self.inputs.put(inputs, session.takes_inputs)

    def push_to_target_inputs(self, *tensors: Any) -> None:
        """Pushes the targets of one run, for the loss module. Raises PyBudaError."""
        self.check_open("push_to_target_inputs")
        targets = arranged(self, tensors)
        self._first_targets = self._first_targets or targets
        self.targets.put(targets, session.is_running)

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
            self.settle_microbatch(inputs)
            outputs.append(self.run_inputs(inputs))
        return outputs

    def backward(self, loop_count: int, zero_grad: bool) -> None:
        """Raises PyBudaError: a backward pass begins at the last device."""
        self.refuse("run_backward(), which begins at the loss", "backward() of one device")

    def get_first_inputs(self, peek: bool = False) -> tuple[int | None, tuple[Tensor, ...] | None]:
        """Returns the size of the first microbatch that was pushed, and its first input.

        It stays in the queue. Without `peek` the next push is the first one from then on. Before a push it returns
        (None, None) to a `peek`, else it raises PyBudaError.
        """
        pushed = self._first_inputs
        if pushed is None:
            if peek:
                return None, None
            self.refuse("inputs that were pushed", "none; try push_to_inputs")
        if not peek:
            self.forget_first()
        size = size_of(self.name, pushed)
        return size, _tensors(one_by_one(self.name, pushed, size)[0])

    def get_first_targets(self) -> tuple[Tensor, ...]:
        """Returns the first target of the first microbatch that was pushed. Raises PyBudaError before a push."""
        pushed = self._first_targets
        if pushed is None:
            self.refuse("targets that were pushed", "none; try push_to_target_inputs")
        return _tensors(one_by_one(self.name, pushed, size_of(self.name, pushed))[0])

    def cpueval_forward(
        self,
        inputs: list[Any],
        parameters: dict[str, Any],
        save_for_backward: bool,
        targets: list[Any] = [],
    ) -> list[Any]:
        """Returns what the CPU computes of its modules, with these values of parameters. Raises PyBudaError.

        With `targets` the loss module's result, which it needs. `save_for_backward` keeps the input for
        `cpueval_backward`; it and `targets` need modules in TT-Buda's ops. The inputs of a microbatch are computed one
        after the other.
        """
        size = self.microbatch or size_of(self.name, inputs)
        if not save_for_backward and not targets:
            return self.reference(inputs, size, parameters)
        from opscope.simulator.host.training.cpu_evaluation import CpuEvaluation

        each = one_by_one(self.name, [*inputs, *targets], size)
        evaluations = [CpuEvaluation(self, one[: len(inputs)], one[len(inputs) :]) for one in each]
        outputs = [evaluation.forward(parameters) for evaluation in evaluations]
        self._evaluations = evaluations if save_for_backward else self._evaluations
        return joined(outputs)

    def cpueval_backward(
        self, bw_inputs: list[Any], parameters: dict[str, Any]
    ) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Returns the gradients of the inputs that were saved (None of integers), and of parameters, by name.

        `bw_inputs` has the gradient of each output. Over a microbatch those of parameters add up, and each input has
        one per run. Raises PyBudaError if `cpueval_forward` has saved no input.
        """
        evaluations = self._evaluations
        if not evaluations:
            self.refuse("cpueval_forward(..., save_for_backward=True) before cpueval_backward", "none")
        each = one_by_one(self.name, bw_inputs, len(evaluations))
        made = [one.backward(incoming, parameters) for one, incoming in zip(evaluations, each, strict=True)]
        floats = [i for i, value in enumerate(made[0][0]) if value is not None]
        of_inputs: list[Any] = [None] * len(made[0][0])
        for i, values in zip(floats, joined([[of[i] for i in floats] for of, _ in made]), strict=True):
            of_inputs[i] = values
        return of_inputs, {name: np.sum([of[name] for _, of in made], axis=0) for name in made[0][1]}

    @property
    def active(self) -> list[Module]:
        """The modules that run, in order."""
        return self.modules

    def compile_for(self, training: bool, microbatch_size: int = 0, microbatch_count: int = 1) -> None:
        """Compiles for the oldest inputs, whose leading size is that of the microbatch. Raises PyBudaError."""
        if training:
            self.refuse("a TTDevice, with the targets of its compile_for", "training")
        first = self.inputs.first()
        if first is None:
            self.refuse("an input that was pushed", "none; try push_to_inputs")
        self.settle_microbatch(first)
        self.compile_modules(self.first_of([array_of(value) for value in first]))

    # --- what commands need of it

    def hand_on(self, outputs: list[Any]) -> bool:
        """Pushes results to the device behind; returns whether there is one."""
        devices = session.session().devices
        behind = devices[devices.index(self) + 1 :]
        if behind:
            behind[0].push_to_inputs(*outputs)
        return bool(behind)

    def step_optimizers(self) -> None:
        """Runs the optimizers of the pipeline, whose devices are trained together. Raises PyBudaError."""
        session.training(self.name).step()

    def step_schedulers(self) -> None:
        """Sets the next learning rates of the pipeline. Raises PyBudaError."""
        session.training(self.name).schedule()

    # --- what a run needs of it

    def settle_microbatch(self, inputs: Sequence[Any], size: int = 0) -> None:
        """Notes how many inputs a push brings, unless that is known: `size`, or what these inputs say."""
        if not self.microbatch:
            whole = any(module.takes_whole_inputs for module in self.active)
            self.microbatch = size or (1 if whole else size_of(self.name, inputs))

    def forget_first(self) -> None:
        """Has the next push be the first one."""
        self._first_inputs = None

    def first_of(self, inputs: Sequence[Any]) -> list[Any]:
        """Returns the first input of a microbatch. Raises PyBudaError for one of another size."""
        return one_by_one(self.name, inputs, self.microbatch)[0]

    def run_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the modules on a microbatch. Raises PyBudaError."""
        raise NotImplementedError(f"{type(self).__name__}.run_inputs")

    def reference(self, inputs: Sequence[Any], size: int, parameters: Mapping[str, Any] | None = None) -> list[Any]:
        """Returns what the CPU computes of its modules, for each of `size` inputs. Raises PyBudaError."""
        values = list(inputs)
        for module in self.modules:
            each = one_by_one(self.name, values, size)
            values = joined([module.compute(one, parameters) for one in each])
        return values

    def compile_modules(self, inputs: Sequence[np.ndarray]) -> None:
        """Compiles its modules for one input like these, unless that has been done."""

    def forget(self) -> None:
        """Forgets what was compiled."""
        self.microbatch = 0
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
        """Raises PyBudaError for inputs that do not fit what was compiled, or before that what was pushed first."""
        if self._first_inputs and size_of(self.name, inputs[:1]) != (
            size := size_of(self.name, self._first_inputs[:1])
        ):
            self.refuse(f"a microbatch of {size} inputs, as was pushed first", f"{size_of(self.name, inputs[:1])}")

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


def _tensors(values: Sequence[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(value) for value in values)
