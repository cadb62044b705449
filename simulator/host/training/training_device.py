"""The passes of one device, made of a function, its parameters and an optimizer, and compiled when they first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from opscope.simulator.host.optimizers import Optimizer
from opscope.simulator.host.training.passes import (
    Function,
    Pass,
    forward_and_backward,
    optimizer_pass,
    parameter,
    state,
)
from opscope.simulator.host.training.steps import BACKWARD, FORWARD, OPTIMIZER, TrainingSteps

Run: TypeAlias = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]
"""A compiled pass: arguments by name -> results in order."""
Compile: TypeAlias = Callable[[Pass], Run]


class TrainingDevice(TrainingSteps):
    """The passes of a function; `compile_pass` makes a program of each, once."""

    def __init__(
        self,
        name: str,
        function: Function,
        parameters: Mapping[str, np.ndarray],
        trained: Sequence[str],
        inputs: Sequence[np.ndarray],
        optimizer: Optimizer | None,
        compile_pass: Compile,
        *,
        loss: bool,
        recompute: bool = False,
        input_gradients: bool = True,
    ) -> None:
        if not trained and not input_gradients:
            raise ValueError(f"{name}: expected parameters that require a gradient, got none; try requires_grad=True")
        self.optimizer = optimizer
        described = {key: (value.shape, value.dtype.name) for key, value in parameters.items()}
        samples = [(value.shape, value.dtype.name) for value in inputs]
        self.forward_pass, self.backward_pass = forward_and_backward(
            function, described, samples, trained, loss, recompute, input_gradients
        )
        self.passes = {FORWARD: self.forward_pass, BACKWARD: self.backward_pass}
        values = {parameter(key): np.asarray(value) for key, value in parameters.items()}
        if optimizer is not None and trained:  # without one, a program reads gradients and pushes weights
            self.passes[OPTIMIZER] = optimizer_pass(optimizer, {key: described[key] for key in trained})
            for key in trained:
                values |= {state(key, kept): value for kept, value in optimizer.start(described[key][0]).items()}
        taken = [spec for spec in self.forward_pass.built.arguments if spec.name.startswith("input.")]
        results = {kind: one.results for kind, one in self.passes.items()}
        keys = optimizer.get_optimizer_state_keys() if optimizer is not None else []
        super().__init__(name, values, trained, keys, taken, results)
        self._compile = compile_pass
        self._compiled: dict[str, Run] = {}

    @property
    def learning_rate(self) -> float:
        """The optimizer's, which a schedule may set; 0 without one."""
        return self.optimizer.learning_rate if self.optimizer is not None else 0.0

    def compile_pass(self, kind: str) -> Run:
        """Returns a compiled pass; compiles it the first time."""
        if kind not in self._compiled:
            self._compiled[kind] = self._compile(self.passes[kind])
        return self._compiled[kind]

    def run_pass(self, kind: str, values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Returns the results of a pass, in order."""
        arguments = self.passes[kind].built.arguments
        return self.compile_pass(kind)({spec.name: values[spec.name] for spec in arguments})
