"""Training as `pybuda.verify` checks it: gradients and new weights of each step, against the CPU's in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from opscope.compiler.api import CompileDepth
from opscope.simulator.host import optimizers
from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.devices.cpu_device import CPUDevice
from opscope.simulator.host.devices.tt_device import TTDevice
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.microbatch import joined, one_by_one
from opscope.simulator.host.modules.module import Module
from opscope.simulator.host.modules.py_buda_module import PyBudaModule
from opscope.simulator.host.modules.py_torch_module import PyTorchModule
from opscope.simulator.host.op import Abs, Add, ReduceAvg, Subtract
from opscope.simulator.host.optimizers import Optimizer
from opscope.simulator.host.settings.compiler_config import CompilerConfig
from opscope.simulator.host.settings.enumerations import BackendType, DeviceMode
from opscope.simulator.host.settings.options import compile_depth, global_compiler_config, using
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.tensor import array_of
from opscope.simulator.host.train import begin
from opscope.simulator.host.training.cpu_evaluation import CpuEvaluation
from opscope.simulator.host.training.cpu_part import torch_module
from opscope.simulator.host.training.steps import TrainingPart
from opscope.simulator.host.training.training_device import TrainingDevice
from opscope.simulator.host.training.training_pipeline import TrainingPipeline

OPTIMIZERS = {name.lower(): getattr(optimizers, name) for name in optimizers.__all__ if name != "Optimizer"}
"""`type` of a configuration's optimizer -> its class."""


class SumOfL1(PyBudaModule):
    """The L1 losses of all outputs, added: where a verification is given no loss module."""

    def forward(self, *values: Any) -> Any:
        """Returns the sum; behind the outputs come their targets."""
        half = len(values) // 2
        losses = []
        for number, (output, target) in enumerate(zip(values[:half], values[half:], strict=True)):
            loss = Abs(f"abs.{number}", Subtract(f"sub.{number}", output, target))
            for dim in range(-min(len(output.shape), 2), 0):
                loss = ReduceAvg(f"average.{number}.{dim}", loss, dim)
            losses.append(loss)
        total = losses[0]
        for number, loss in enumerate(losses[1:]):
            total = Add(f"add.{number}", total, loss)
        return total


def optimizer_of(config: VerifyConfig) -> Optimizer | None:
    """Returns a new optimizer as a configuration describes it: `{"type": "sgd", "params": {"learning_rate": 0.5}}`.

    None if it describes none. Raises PyBudaError.
    """
    if config.optimizer is None:
        return None
    kind = str(config.optimizer.get("type", "")).lower()
    if kind not in OPTIMIZERS:
        raise PyBudaError(f"VerifyConfig: optimizer: expected a type of {', '.join(OPTIMIZERS)}, got {kind!r}")
    return OPTIMIZERS[kind](device_params=True, **config.optimizer.get("params", {}))


def torch_optimizer_of(config: VerifyConfig) -> Callable[[Any], Any] | None:
    """Returns what makes PyTorch's optimizer of a module, for a CPUDevice; None if a configuration describes none.

    Raises PyBudaError for one that PyTorch does not have.
    """
    described = optimizer_of(config)
    if described is None:
        return None
    if not isinstance(described, optimizers.SGD | optimizers.Adam):
        raise PyBudaError(f"verify: expected sgd, adam or adamw to train a CPUDevice, got {described.get_type()}")

    from opscope.simulator.host.submodules.torch_training import optimizer_like

    return lambda module: optimizer_like(described, module)


def _loss_of(device: TTDevice | CPUDevice) -> Module:
    """Returns the sum of the L1 losses of all outputs, for a card or in PyTorch.

    Raises PyBudaError for a CPU whose modules PyTorch cannot train.
    """
    if isinstance(device, TTDevice):
        return SumOfL1("verified_loss")
    for module in device.modules:
        torch_module(device, module)
    from opscope.simulator.host.submodules.torch_training import TorchSumOfL1

    return PyTorchModule("verified_loss", TorchSumOfL1())


def train(
    devices: Sequence[TTDevice | CPUDevice],
    inputs: Sequence[Sequence[Any]],
    loss: Module | None,
    config: VerifyConfig,
) -> None:
    """Trains devices in a row for the epochs and steps of a configuration, and compares after each pass.

    `inputs` are microbatches, taken in turn; targets are seeded. Gradients are compared after each accumulation, and
    the weights after each step with what the optimizer's rule makes of the CPU's gradients; the next step begins with
    the card's. Where `compiles_only`, that is all. Raises PyBudaError.
    """
    with _recomputing(config.kind.is_recompute()):
        last = devices[-1]
        values = list(inputs[0])
        for device in devices:
            device.settle_microbatch(values, devices[0].microbatch)
        for device in devices:
            values = device.reference(values, device.microbatch)
        random = np.random.default_rng(1)
        targets = [
            [random.normal(0, 0.5, array_of(value).shape).astype(np.float32) for value in values] for _ in inputs
        ]
        last.place_loss_module(loss if loss is not None else _loss_of(last))
        pipeline = begin()
        if config.enable_input_gradient_checking:
            pipeline.input_gradients = []
        if compiles_only(config):
            pipeline.compile(inputs[0], targets[0])
            for part in pipeline.parts:
                if isinstance(part, TrainingDevice):
                    for kind in part.passes:
                        part.compile_pass(kind)
            return
        verification = _Verification(devices, pipeline, config)
        number = 0
        for _ in range(config.epochs):
            for _ in range(config.steps):
                for accumulated in range(config.accumulation_steps):
                    rows = range(number, number + config.microbatch_count)
                    number += config.microbatch_count
                    some = [(inputs[i % len(inputs)], targets[i % len(inputs)]) for i in rows]
                    verification.pass_through(some, accumulated == 0)
                verification.step()
            pipeline.schedule()


def compiles_only(config: VerifyConfig) -> bool:
    """Whether `compile_depth` or a configuration ask for a compilation without a run."""
    return (
        compile_depth() is not CompileDepth.FULL
        or config.devtype is BackendType.NoBackend
        or config.devmode is DeviceMode.CompileOnly
    )


class _Verification:
    """What the CPU has made of the same inputs so far."""

    def __init__(
        self, devices: Sequence[TTDevice | CPUDevice], pipeline: TrainingPipeline, config: VerifyConfig
    ) -> None:
        self._devices, self._pipeline, self._config = devices, pipeline, config
        self._sums: list[dict[str, Any]] = [{} for _ in devices]
        self._states: dict[tuple[int, str], dict[str, Any]] = {}

    def pass_through(self, rows: Sequence[tuple[Sequence[Any], Sequence[Any]]], first: bool) -> None:
        """Runs microbatches of inputs and targets forward and backward, and compares the gradients so far."""
        for inputs, targets in rows:
            self._devices[0].push_to_inputs(*inputs)
            self._devices[-1].push_to_target_inputs(*targets)
        self._pipeline.forward(len(rows), self._config.sequential)
        self._pipeline.backward(len(rows), first)
        if first:
            self._sums = [{} for _ in self._devices]
        made = self._pipeline.input_gradients
        self._pipeline.input_gradients = None if made is None else []
        for number, (inputs, targets) in enumerate(rows):
            each = one_by_one("verify", [*inputs, *targets], self._devices[0].microbatch)
            wanted = [self._evaluate(one[: len(inputs)], one[len(inputs) :]) for one in each]
            for place, got in made[number].items() if made and self._config.enabled else ():
                if place < len(inputs):
                    (of_input,) = joined([[of[place]] for of in wanted])
                    check_correlation(f"gradient of input {place}", got, of_input, self._config, "the CPU")
        if not self._config.enabled or not self._config.enable_parameter_gradient_checking:
            return
        for part, sums in zip(self._pipeline.parts, self._sums, strict=True):
            for name, got in part.gradients().items():
                if not any(waived in name for waived in self._config.waive_gradient_errors):
                    check_correlation(f"gradient of {name}", got, sums[name], self._config, "the CPU")

    def _evaluate(self, inputs: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        """Adds the CPU's gradients of parameters, and returns those of the inputs."""
        evaluations = []
        values: Sequence[Any] = inputs
        for device in self._devices:
            evaluations.append(CpuEvaluation(device, values, targets if device is self._devices[-1] else []))
            values = evaluations[-1].forward({})
        incoming: list[Any] = [np.ones(array_of(value).shape, np.float32) for value in values]
        for evaluation, sums in reversed(list(zip(evaluations, self._sums, strict=True))):
            before, of_parameters = evaluation.backward(incoming, {})
            for name, value in of_parameters.items():
                sums[name] = sums.get(name, 0) + value
            incoming = [0 * array_of(x) if g is None else g for g, x in zip(before, evaluation.inputs, strict=True)]
        return incoming

    def step(self) -> None:
        """Runs the optimizers, and compares the new weights."""
        import jax.numpy as jnp

        parts = self._pipeline.parts
        before = [part.checkpoint() for part in parts]
        rates = [_rates(device, part) for device, part in zip(self._devices, parts, strict=True)]
        self._pipeline.step()
        for number, (part, weights, sums) in enumerate(zip(parts, before, self._sums, strict=True)):
            optimizer = optimizer_of(self._config)
            if optimizer is None:
                continue
            after = part.checkpoint()
            for name, rate in rates[number].items():
                start = self._states.get((number, name)) or optimizer.start(weights[name].shape)
                state = {key: jnp.asarray(value) for key, value in start.items()}
                weight, slope = jnp.asarray(weights[name]), jnp.asarray(sums[name])
                wanted, self._states[number, name] = optimizer.rule(weight, slope, state, jnp.float32(rate))
                if self._config.enabled and self._config.verify_last:
                    check_correlation(f"{name} after the step", after[name], wanted, self._config, "the CPU")


def _rates(device: TTDevice | CPUDevice, part: TrainingPart) -> dict[str, float]:
    """Returns the learning rate of each parameter that the next step trains."""
    if isinstance(device, TTDevice):
        optimizer = device.optimizer
        return {} if optimizer is None else dict.fromkeys(part.gradients(), optimizer.learning_rate)
    return {name: float(state["lr"]) for name, state in part.optimizer_state().items()}


@contextmanager
def _recomputing(asked: bool) -> Iterator[None]:
    config = CompilerConfig()
    config.take_over(global_compiler_config())
    if asked:
        config.enable_recompute = True
    with using(config):
        yield
