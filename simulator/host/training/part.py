"""The passes of what a device holds: its modules and its loss as functions, compiled for its cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from opscope.simulator.host import session
from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.errors import in_one_line
from opscope.simulator.host.exported import Exported
from opscope.simulator.host.modules.py_buda_module import PyBudaModule, traced_type
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.settings.options import option
from opscope.simulator.host.tensor import array_of
from opscope.simulator.host.training.passes import Function, Pass
from opscope.simulator.host.training.training_device import Run, TrainingDevice

if TYPE_CHECKING:
    from opscope.compiler.api import Configuration
    from opscope.simulator.host.hosted_program import Sendable
    from opscope.simulator.host.modules.module import Module
    from opscope.simulator.host.optimizers import Optimizer
    from opscope.simulator.host.parameter import Parameter
    from opscope.simulator.host.processes.device_process import DeviceProcess


class Holder(Protocol):
    """What of a device is needed to know what it computes."""

    name: str
    loss_module: Module | None

    @property
    def active(self) -> list[Module]:
        """The modules that run, in order."""
        ...

    def refuse(self, expected: str, got: str) -> NoReturn:
        """Raises PyBudaError in its name."""
        ...


class Trainee(Holder, Protocol):
    """What of a `TTDevice` is needed to train it."""

    board: str
    optimizer: Optimizer | None
    programs: dict[str, CardProgram]
    process: DeviceProcess | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The ids of its chips."""
        ...

    def compile_options(self) -> Configuration:
        """Returns the compile options."""
        ...

    def write_files(self, programs: Sequence[CardProgram], config: Configuration) -> None:
        """Writes what options ask for of compiled programs."""
        ...

    def run_there(self, program: Sendable, inputs: Sequence[np.ndarray], profile: bool = False) -> list[np.ndarray]:
        """Returns what its process computes."""
        ...


def sample_of(value: Any) -> np.ndarray:
    """Returns zeros of the shape of an input, in the type in which JAX takes it."""
    array = array_of(value)
    return np.zeros(array.shape, traced_type(array.dtype))


def part_of(
    device: Trainee, samples: Sequence[np.ndarray], targets: int, loss: bool, input_gradients: bool
) -> TrainingDevice:
    """Returns the passes of what a device holds, for inputs, and behind them `targets` targets, like these.

    Raises PyBudaError.
    """
    tapped = [tap for one in device.active if isinstance(one, PyBudaModule) for tap, _ in one.tapouts]
    if tapped:
        device.refuse("no tapped ops while it trains", tapped[0])
    function, parameters = function_of(device, len(samples) - targets, loss)
    optimizer = device.optimizer
    trains = optimizer.trains if optimizer is not None else attrgetter("requires_grad")
    trained = [name for name, parameter in parameters.items() if trains(parameter)]
    if not trained and not input_gradients:
        device.refuse("parameters that require a gradient and that its optimizer trains", "none")
    values = {name: array_of(parameter.value()) for name, parameter in parameters.items()}
    with in_one_line(device.name):  # a user's forward, while JAX traces it
        return TrainingDevice(
            device.name,
            function,
            values,
            trained,
            samples,
            optimizer,
            lambda one: _program(device, one),
            loss=loss,
            recompute=bool(option("enable_recompute", False)),
            input_gradients=input_gradients,
        )


def function_of(device: Holder, split: int, loss: bool) -> tuple[Function, dict[str, Parameter]]:
    """Returns what a device's modules compute of `split` inputs, and with `loss` its loss module of these results and
    of the targets behind the inputs; and their parameters by name. Raises PyBudaError.
    """
    modules = [_traceable(device, module) for module in device.active]
    head = [_traceable(device, device.loss_module)] if loss else []
    parameters: dict[str, Parameter] = {}
    for module in (*modules, *head):
        for parameter in module.all_parameters():
            if parameters.setdefault(parameter.get_name(), parameter) is not parameter:
                device.refuse("parameters with names of their own", f"{parameter.get_name()!r} twice")

    def function(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        values = list(inputs[:split])
        for module in modules:
            values = _traced(module, weights, values)
        for module in head:
            values = _traced(module, weights, [*values, *inputs[split:]])
        return values

    return function, parameters


def _traced(module: PyBudaModule | PyTorchModule, weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    own = {parameter.get_name(): weights[parameter.get_name()] for parameter in module.all_parameters()}
    results = list(module.function()(own, inputs))
    taps = len(module.tapouts) if isinstance(module, PyBudaModule) else 0
    return results[: len(results) - taps]


def _traceable(device: Holder, module: Any) -> PyBudaModule | PyTorchModule:
    if not isinstance(module, PyBudaModule | PyTorchModule):
        device.refuse("a PyBudaModule or a PyTorchModule to train, whose parameters can be set", type(module).__name__)
    return module


@contextmanager
def _innermost_frames() -> Iterator[None]:
    """Has JAX note the line that an op comes from, and not who called it: the same pass is then the same bytes."""
    import jax

    name = "jax_traceback_in_locations_limit"
    limit = jax.config.values[name]
    jax.config.update(name, 1)
    try:
        yield
    finally:
        jax.config.update(name, limit)


def _program(device: Trainee, one: Pass) -> Run:
    from opscope.models.frontends.jax import lower

    with _innermost_frames():
        exported = Exported(f"{device.name}.{one.kind}", lower(one.built, one.kind), one.built.arguments, {})
    before, config = device.programs.get(one.kind), device.compile_options()
    program = CardProgram.of(before, exported, device.board, config, device.numbers, one.kind)
    device.programs[one.kind] = program
    if program is not before:
        device.write_files([program], config)

    def run(values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        inputs = [values[spec.name] for spec in one.built.arguments]
        results = program.run(inputs) if device.process is None else device.run_there(program, inputs)
        return session.without_saved(results, program.parts.saved)

    return run
