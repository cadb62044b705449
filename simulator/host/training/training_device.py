"""One device's part of training: its weights, what waits between the passes, and the passes themselves."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from opscope.simulator.host.optimizers import Optimizer
from opscope.simulator.host.training.passes import (
    RATE,
    Described,
    Function,
    Pass,
    forward_and_backward,
    gradient,
    optimizer_pass,
    parameter,
    state,
)

Arrays: TypeAlias = "dict[str, np.ndarray]"
Run: TypeAlias = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]
"""A compiled pass: arguments by name -> results in order."""
Compile: TypeAlias = Callable[[Pass], Run]


class TrainingDevice:
    """Runs forward, backward and optimizer of the part of a pipeline that one device holds.

    `compile_pass` makes a program of each pass, once. Weights, gradients and states stay here between the passes, and
    what a microbatch keeps for its backward pass waits in a queue, first in, first out.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        parameters: Mapping[str, np.ndarray],
        trained: Sequence[str],
        inputs: Sequence[np.ndarray],
        optimizer: Optimizer,
        compile_pass: Compile,
        *,
        loss: bool,
        recompute: bool = False,
        input_gradients: bool = True,
    ) -> None:
        if not trained:
            raise ValueError(f"{name}: expected parameters that require a gradient, got none; try requires_grad=True")
        self.name, self.optimizer = name, optimizer
        self.trained = tuple(trained)
        self._values: Arrays = {parameter(key): np.asarray(value) for key, value in parameters.items()}
        described = {key: (value.shape, value.dtype.name) for key, value in parameters.items()}
        samples = [(value.shape, value.dtype.name) for value in inputs]
        self.forward_pass, self.backward_pass = forward_and_backward(
            function, described, samples, self.trained, loss, recompute, input_gradients
        )
        self.optimizer_pass = optimizer_pass(optimizer, {key: described[key] for key in self.trained})
        for key in self.trained:
            shape = described[key][0]
            self._values |= {state(key, name): value for name, value in optimizer.start(shape).items()}
        self._zero_gradients()
        self._compile = compile_pass
        self._compiled: dict[str, Run] = {}
        self._waiting: deque[Arrays] = deque()

    @property
    def waiting(self) -> int:
        """How many microbatches have run forward and not backward."""
        return len(self._waiting)

    def forward(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs one microbatch forward and returns its outputs; with a loss module these are its losses."""
        given = self._values | {f"input.{i}": value for i, value in enumerate(inputs)}
        results = dict(zip(self.forward_pass.results, self._run(self.forward_pass, given), strict=True))
        # Weights do not change before the optimizer runs, which waits for every microbatch: they need no copies.
        self._waiting.append({name: v for name, v in {**given, **results}.items() if name not in self._values})
        return [value for name, value in results.items() if name.startswith("output.")]

    def backward(
        self, output_gradients: Sequence[np.ndarray] | None = None, zero_grad: bool = False
    ) -> dict[int, np.ndarray]:
        """Runs the oldest waiting microbatch backward, and adds its gradients to those so far, or to zero.

        Returns the gradient of each floating input by its number, for the device before. Raises RuntimeError if no
        microbatch has run forward.
        """
        if not self._waiting:
            raise RuntimeError(f"{self.name}: expected a microbatch that has run forward, got none; try run_forward()")
        if zero_grad:
            self._zero_gradients()
        incoming = {f"output_gradient.{i}": value for i, value in enumerate(output_gradients or ())}
        given = {**self._values, **self._waiting.popleft(), **incoming}
        results = dict(zip(self.backward_pass.results, self._run(self.backward_pass, given), strict=True))
        self._values |= {gradient(name): results[gradient(name)] for name in self.trained}
        start = "input_gradient."
        return {int(name.removeprefix(start)): v for name, v in results.items() if name.startswith(start)}

    def step(self) -> None:
        """Updates the weights from the gradients so far. Raises RuntimeError if a microbatch still waits."""
        if self._waiting:
            raise RuntimeError(
                f"{self.name}: expected every microbatch to have run backward, got {len(self._waiting)} that wait; "
                "try run_backward()"
            )
        rate = {RATE: np.asarray(self.optimizer.learning_rate, np.float32)}
        results = self._run(self.optimizer_pass, self._values | rate)
        self._values |= dict(zip(self.optimizer_pass.results, results, strict=True))

    @property
    def outputs(self) -> list[Described]:
        """Shape and element type of each output."""
        return [described for name, described in self.forward_pass.results.items() if name.startswith("output.")]

    def checkpoint(self) -> Arrays:
        """Returns a copy of each parameter, by name."""
        start = parameter("")
        return {n.removeprefix(start): v.copy() for n, v in self._values.items() if n.startswith(start)}

    def gradients(self) -> Arrays:
        """Returns a copy of each gradient so far, by the parameter's name."""
        return {name: self._values[gradient(name)].copy() for name in self.trained}

    def optimizer_state(self) -> dict[str, Arrays]:
        """Returns what the optimizer has for each parameter that it trains: its learning rate and what it keeps."""
        rate = np.asarray(self.optimizer.learning_rate, np.float32)
        keys = self.optimizer.get_optimizer_state_keys()
        return {n: {"lr": rate} | {key: self._values[state(n, key)].copy() for key in keys} for n in self.trained}

    def update(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Replaces parameters. Raises ValueError for one that is not there, or of another shape."""
        for name, value in parameters.items():
            old = self._values.get(parameter(name))
            if old is None or old.shape != np.shape(value):
                wanted = "a parameter of this device" if old is None else f"shape {list(old.shape)}"
                got = "none of that name" if old is None else list(np.shape(value))
                raise ValueError(f"{self.name}.{name}: expected {wanted}, got {got}")
            self._values[parameter(name)] = np.asarray(value, old.dtype)

    def _zero_gradients(self) -> None:
        self._values |= {gradient(name): np.zeros_like(self._values[parameter(name)]) for name in self.trained}

    def _run(self, one: Pass, values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        if one.kind not in self._compiled:
            self._compiled[one.kind] = self._compile(one)
        return self._compiled[one.kind]({spec.name: values[spec.name] for spec in one.built.arguments})
