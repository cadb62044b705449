"""What a benchmark runs on: a card of the simulator, XLA on the CPU, IREE."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import util
from typing import Any

import numpy as np

from opscope.base.installing import install_command
from opscope.base.live import progress
from opscope.compiler.api import Compilation, Configuration, argument_types, compile_to, planned_module
from opscope.compiler.target.formats import host_dtype
from opscope.simulator import host_ops
from opscope.simulator.host.compiled_module import CompiledModule
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.sources import Arguments


@dataclass
class Seconds:
    """Time of the host, in seconds, summed over inputs."""

    push: float = 0.0
    """From an input to the contents of the card's queues: integers, embeddings, what depends on parameters, tiles."""
    device: float = 0.0
    """While the device computes; on a simulated card, while it is simulated."""
    pop: float = 0.0
    """From the device's outputs to the module's results."""

    @property
    def total(self) -> float:
        """All three."""
        return self.push + self.device + self.pop


@dataclass(frozen=True)
class Program:
    """What is measured: a StableHLO module and values of all its arguments but the inputs."""

    name: str
    module: bytes
    arguments: Arguments
    values: dict[str, np.ndarray] = field(repr=False)

    @cached_property
    def described(self) -> list[tuple[str, tuple[int, ...], np.dtype]]:
        """Name, shape and type of each argument, in order; the module is read once for them."""
        types = argument_types(self.module)
        names = [name for name, _ in self.arguments] or [f"arg{i}" for i in range(len(types))]
        return [(name, shape, host_dtype(kind)) for name, (shape, kind) in zip(names, types, strict=True)]


Step = Callable[[dict[str, np.ndarray], Seconds], Sequence[np.ndarray]]
"""Runs one input, adds its time once it is done, and returns the results."""


@dataclass(frozen=True)
class Runner:
    """A program that is ready to run."""

    step: Step
    about: dict[str, Any]
    """What the report says of it: board, versions, simulated time per input."""


def card(program: Program, arch: str, settings: Sequence[str]) -> Runner:
    """The program on a simulated card. Raises StageFailure, CompilerInputError, ImageError, DeviceError."""
    configuration = Configuration()
    for text in settings:
        option, _, value = text.partition("=")
        configuration.set_configuration_options(**{option: value})
    progress.step(f"compiling {program.name}")
    compilation = compile_to(Compilation(program.module, arch, configuration, program.name))
    progress.step("loading")
    planned = planned_module(compilation)
    arguments = program.arguments or [(f"arg{i}", "input") for i in range(len(planned.arguments))]
    loaded = CompiledModule.of(planned, arguments).load()
    profile = loaded.program.profile
    plan = compilation.plan
    assert plan is not None

    operations, numbers = len(loaded.program.program.operations), itertools.count(1)

    def step(values: dict[str, np.ndarray], seconds: Seconds) -> Sequence[np.ndarray]:
        number, done = next(numbers), itertools.count(1)

        def said(_: Any) -> None:
            progress.step(f"computing input {number}, op", next(done), operations)

        began = time.perf_counter()
        progress.step("pushing an input")
        arguments = loaded.in_order(values)
        queues, by_number = loaded.runner.push(arguments)
        pushed = time.perf_counter()
        outputs = loaded.program.run(queues, observe=said).outputs
        ran = time.perf_counter()
        results = loaded.runner.pop(arguments, by_number, outputs)
        seconds.push += pushed - began
        seconds.device += ran - pushed
        seconds.pop += time.perf_counter() - ran
        return results

    about = {
        "board": compilation.board,
        "epochs": len(plan.epochs),
        "simulated_seconds_per_input": profile.device_ns * 1e-9,
        "simulated_cycles_per_input": profile.total_cycles,
    }
    return Runner(step, about)


def cpu(program: Program) -> Runner:
    """The program on XLA's CPU backend, compiled before the first input."""
    names = [name for name, _, _ in program.described]

    def step(values: dict[str, np.ndarray], seconds: Seconds) -> Sequence[np.ndarray]:
        began = time.perf_counter()
        results = host_ops.run(program.module, [values[name] for name in names])
        seconds.device += time.perf_counter() - began
        return results

    return Runner(step, {"compiler": "XLA"})


def iree(program: Program) -> Runner:
    """The program on IREE's CPU backend. Raises PyBudaError if IREE is missing or refuses it."""
    if not util.find_spec("iree") or not util.find_spec("iree.compiler") or not util.find_spec("iree.runtime"):
        raise PyBudaError(f"-d iree: expected IREE, got none; try {install_command('iree')}")
    from iree import compiler, runtime  # pyright: ignore[reportAttributeAccessIssue]

    flags = ["--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false"]
    try:
        compiled = compiler.tools.compile_str(
            program.module, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=flags
        )
    except compiler.tools.CompilerToolError as error:
        line = next((text for text in str(error).splitlines() if "error:" in text), "compile failed")
        raise PyBudaError(f"{program.name}: expected a module that IREE compiles, got: {line.strip()[:200]}") from error
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    module = runtime.VmModule.copy_buffer(context.instance, compiled)
    context.add_vm_module(module)
    entry = context.modules[module.name]["main"]
    names = [name for name, _, _ in program.described]

    def step(values: dict[str, np.ndarray], seconds: Seconds) -> Sequence[np.ndarray]:
        began = time.perf_counter()
        pushed = [runtime.asdevicearray(context.config.device, values[name]) for name in names]
        ready = time.perf_counter()
        results = entry(*pushed)
        ran = time.perf_counter()
        arrays = [r.to_host() for r in (results if isinstance(results, tuple | list) else (results,))]
        seconds.push += ready - began
        seconds.device += ran - ready
        seconds.pop += time.perf_counter() - ran
        return arrays

    return Runner(step, {"compiler": "IREE"})
