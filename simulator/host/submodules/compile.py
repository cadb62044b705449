"""`pybuda.pybuda_compile`: compiles the modules of a device, and compares what a card computes with the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from opscope.compiler.api import CompileDepth
from opscope.simulator.host.argument_checks import count, one_of
from opscope.simulator.host.card_program import CardProgram
from opscope.simulator.host.compile_results import CompileResults, compile_results
from opscope.simulator.host.correlation import check_correlation
from opscope.simulator.host.devices.tt_device import TTDevice, sample_arrays
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.compiler_config import CompilerConfig
from opscope.simulator.host.settings.options import compile_depth, global_compiler_config, using
from opscope.simulator.host.settings.verify_config import VerifyConfig
from opscope.simulator.host.submodules.full_precision import verified
from opscope.simulator.host.tensor import Tensor, array_of, is_torch, to_torch
from opscope.simulator.host.training.cpu_evaluation import CpuEvaluation
from opscope.simulator.host.training.part import part_of, sample_of
from opscope.simulator.host.training.steps import BACKWARD, FORWARD, OPTIMIZER
from opscope.simulator.host.training.training_device import TrainingDevice


def pybuda_compile(
    dev: TTDevice,
    graph_name: str,
    *inputs: Any,
    targets: Sequence[Any] = (),
    compiler_cfg: CompilerConfig | None = None,
    verify_cfg: VerifyConfig | None = None,
    losses: Sequence[Any] | None = None,
    microbatch_size: int = 1,
    microbatch_count: int = 1,
) -> CompileResults:
    """Compiles the modules of a device for one input like these, as far as `compile_depth` says.

    `compiler_cfg` counts in place of the global options. With its `enable_training` the passes of training are
    compiled, the optimizer's if the device has one. With a `verify_cfg`, and inputs that have elements, what the card
    computes is compared with the CPU, as are gradients in training: of `losses`, or of seeded ones; not of PyTorch's
    tensors that require none. What only formats lose is compared in Float32 (`verified`). The netlist is
    `<graph_name>_netlist.yaml` in `backend_output_dir`. Raises PyBudaError.
    """
    if not isinstance(dev, TTDevice):
        raise PyBudaError(f"pybuda_compile: expected a TTDevice, got {type(dev).__name__}")
    if not isinstance(graph_name, str) or not graph_name:
        raise PyBudaError(f"pybuda_compile: expected a name of the graph, got {graph_name!r}"[:300])
    count("pybuda_compile: microbatch_size", microbatch_size, 1)
    one_of("pybuda_compile: compiler_cfg", compiler_cfg, CompilerConfig)
    config = one_of("pybuda_compile: verify_cfg", verify_cfg, VerifyConfig) or VerifyConfig.disabled()
    with using(compiler_cfg):
        dev.forget()
        dev.settle_microbatch(inputs, microbatch_size)

        def compile_now() -> _Compiled:
            return _Compiled(dev, list(inputs), list(targets), global_compiler_config().enable_training)

        compiled = compile_now()
        outputs = compiled.outputs()
        if config.enabled and compiled.has_values and compile_depth() >= CompileDepth.BACKEND_GOLDEN_VERIFY:
            verify_first = partial(compiled.verify, outputs, losses)
            verified([dev], config, verify_first, lambda: compile_now().verify(outputs, losses, config))
        return compile_results(graph_name, outputs, compiled.programs[0])


class _Compiled:
    """What a device computes of one input: its modules, or the passes of training."""

    def __init__(self, device: TTDevice, inputs: list[Any], targets: list[Any], trains: bool) -> None:
        self._device, self._inputs, self._targets = device, inputs, targets
        self.has_values = all(not isinstance(v, Tensor) or v.has_value() for v in (*inputs, *targets))
        self._part: TrainingDevice | None = None
        samples = sample_arrays([*inputs, *targets])
        if not trains or compile_depth() < CompileDepth.AUTOGRAD:
            device.compile_modules(samples[: len(inputs)])
            self.programs: list[CardProgram] = device.compiled
            return
        loss = bool(targets) and device.loss_module is not None
        self._part = part_of(device, [sample_of(value) for value in samples], len(targets), loss, True)
        kinds = [kind for kind in (FORWARD, BACKWARD, OPTIMIZER) if kind in self._part.passes]
        for kind in kinds:
            self._part.compile_pass(kind)
        self.programs = [device.programs[kind] for kind in kinds]

    def outputs(self) -> list[Tensor]:
        """Returns what the CPU computes, or the shapes of it."""
        if not self.has_values:
            return [Tensor(shape) for _, shape, _ in self.programs[-1 if self._part is None else 0].outputs]
        if self._part is None:
            values = self._device.reference(self._inputs, 1)
        else:
            values = CpuEvaluation(self._device, self._inputs, self._loss_targets).forward({})
        as_torch = any(is_torch(value) for value in self._inputs)
        return [Tensor(to_torch(value) if as_torch else value) for value in values]

    @property
    def _loss_targets(self) -> list[Any]:
        return self._targets if self._device.loss_module is not None else []

    def verify(self, outputs: Sequence[Tensor], losses: Sequence[Any] | None, config: VerifyConfig) -> None:
        """Raises PyBudaError where the card's results, or gradients, do not correlate with the CPU's."""
        if self._part is None:
            self._device.microbatch, size = 1, self._device.microbatch
            made = self._device.run_inputs(self._inputs)
            self._device.microbatch = size
            for number, (got, wanted) in enumerate(zip(made, outputs, strict=True)):
                check_correlation(f"output {number} of the card", got, wanted, config, "the CPU")
            return
        arrays = [np.asarray(array_of(value)) for value in (*self._inputs, *self._loss_targets)]
        made = self._part.forward([a.astype(s.dtype) for a, s in zip(arrays, self._part.inputs, strict=True)])
        for number, (got, wanted) in enumerate(zip(made, outputs, strict=True)):
            check_correlation(f"output {number} of the card", got, wanted, config, "the CPU")
        evaluation = CpuEvaluation(self._device, self._inputs, self._loss_targets)
        incoming = self._incoming(outputs, losses)
        of_inputs, of_parameters = evaluation.backward(incoming, {})
        back = self._part.backward(None if self._loss_targets else incoming, zero_grad=True)
        for number, got in back.items():
            if number < len(of_inputs) and _wants_gradient(self._inputs[number]):
                check_correlation(f"gradient of input {number}", got, of_inputs[number], config, "the CPU")
        for name, got in self._part.gradients().items():
            if any(waived in name for waived in config.waive_gradient_errors):
                continue
            check_correlation(f"gradient of {name}", got, of_parameters[name], config, "the CPU")

    def _incoming(self, outputs: Sequence[Tensor], losses: Sequence[Any] | None) -> list[np.ndarray]:
        """Returns the gradient of each output: ones of a loss, else `losses`, else seeded ones."""
        if self._loss_targets:
            return [np.ones(output.shape, np.float32) for output in outputs]
        if losses is not None:
            return [array_of(value) for value in losses]
        random = np.random.default_rng(0)
        return [random.standard_normal(output.shape).astype(np.float32) for output in outputs]


def _wants_gradient(value: Any) -> bool:
    """Whether the gradient of an input is compared: a tensor of PyTorch says that itself."""
    elements: Any = value.elements if isinstance(value, Tensor) else value
    return not is_torch(elements) or bool(elements.requires_grad)
