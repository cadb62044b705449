"""A device's part of training as it runs: its weights, what waits between the passes, and one pass after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from opscope.models.arguments import ArgSpec
from opscope.simulator.host.microbatch import joined, one_by_one
from opscope.simulator.host.training.passes import RATE, Described, gradient, parameter, state

Arrays: TypeAlias = "dict[str, np.ndarray]"
Kept: TypeAlias = "tuple[Arrays, tuple[list[Arrays], ...]]"
"""What changes in a device that is trained: its values, and the microbatches that wait."""
FORWARD, BACKWARD, OPTIMIZER = KINDS = ("forward", "backward", "optimizer")


class TrainingPart(Protocol):
    """What a pipeline needs of the part of it that one device holds."""

    trained: tuple[str, ...]
    inputs: list[ArgSpec]
    microbatch: int
    """How many of these inputs a microbatch brings."""

    @property
    def waiting(self) -> int:
        """How many microbatches have run forward and not backward."""
        ...

    @property
    def outputs(self) -> list[Described]:
        """Shape and element type of each output, for one of the microbatch."""
        ...

    def forward(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs one microbatch forward and returns its outputs, or losses."""
        ...

    def backward(
        self, output_gradients: Sequence[np.ndarray] | None = None, zero_grad: bool = False
    ) -> dict[int, np.ndarray]:
        """Runs the oldest waiting microbatch backward; returns the gradients of inputs by number."""
        ...

    def step(self) -> None:
        """Updates the weights."""
        ...

    def checkpoint(self) -> Arrays:
        """Returns a copy of each parameter, by name."""
        ...

    def gradients(self) -> Arrays:
        """Returns a copy of each gradient so far, by the parameter's name."""
        ...

    def optimizer_state(self) -> dict[str, Arrays]:
        """Returns what the optimizer has for each parameter."""
        ...

    def update(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Replaces parameters."""
        ...

    def kept(self) -> Any:
        """Returns all that changes."""
        ...

    def restore(self, kept: Any) -> None:
        """Goes back to what was `kept`."""
        ...


class TrainingSteps(ABC):
    """Runs forward, backward and optimizer of the part of a pipeline that one device holds.

    Weights, gradients and states stay here between the passes, and what a microbatch keeps for its backward pass waits
    in a queue, first in, first out.
    """

    def __init__(
        self,
        name: str,
        values: Mapping[str, np.ndarray],
        trained: Sequence[str],
        state_names: Sequence[str],
        inputs: Sequence[ArgSpec],
        results: Mapping[str, Mapping[str, Described]],
    ) -> None:
        """`values` are parameters and states by the names that the passes have for them.

        `inputs` are those of the forward pass, behind them the targets; `results` has the results of each pass.
        """
        self.name, self.trained, self.state_names = name, tuple(trained), tuple(state_names)
        self.inputs, self.results = list(inputs), results
        self._values: Arrays = dict(values)
        self._zero_gradients()
        self.microbatch = 1
        """How many inputs a microbatch brings, which run one after the other."""
        self._waiting: deque[list[Arrays]] = deque()

    @property
    @abstractmethod
    def learning_rate(self) -> float:
        """The learning rate of the next step."""

    @abstractmethod
    def run_pass(self, kind: str, values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Returns the results of a pass, in order; `values` has all its arguments by name, and others."""

    @property
    def values(self) -> Arrays:
        """What stays from pass to pass now, by the names that the passes have for it."""
        return self._values | {RATE: np.asarray(self.learning_rate, np.float32)}

    @property
    def waiting(self) -> int:
        """How many microbatches have run forward and not backward."""
        return len(self._waiting)

    def forward(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs one microbatch forward and returns its outputs; with a loss module these are its losses."""
        waits: list[Arrays] = []
        outputs = []
        for one in one_by_one(self.name, inputs, self.microbatch):
            arguments = self._values | {f"input.{i}": value for i, value in enumerate(one)}
            results = dict(zip(self.results[FORWARD], self.run_pass(FORWARD, arguments), strict=True))
            # Weights do not change before the optimizer runs, which waits for every microbatch: they need no copies.
            waits.append({name: v for name, v in {**arguments, **results}.items() if name not in self._values})
            outputs.append([value for name, value in results.items() if name.startswith("output.")])
        self._waiting.append(waits)
        return joined(outputs)

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
        start = "input_gradient."
        back: list[Arrays] = []
        incoming = one_by_one(self.name, output_gradients or (), self.microbatch)
        for waits, gradients in zip(self._waiting.popleft(), incoming, strict=True):
            given = zip(self.outputs, gradients, strict=False)
            arguments = {
                **self._values,
                **waits,
                **{f"output_gradient.{i}": value.reshape(shape) for i, ((shape, _), value) in enumerate(given)},
            }
            results = dict(zip(self.results[BACKWARD], self.run_pass(BACKWARD, arguments), strict=True))
            self._values |= {gradient(name): results[gradient(name)] for name in self.trained}
            back.append({name: value for name, value in results.items() if name.startswith(start)})
        values = joined([list(one.values()) for one in back])
        return {int(name.removeprefix(start)): value for name, value in zip(back[0], values, strict=True)}

    def step(self) -> None:
        """Updates the weights from the gradients so far, if there is an optimizer.

        Raises RuntimeError if a microbatch still waits.
        """
        if self._waiting:
            raise RuntimeError(
                f"{self.name}: expected every microbatch to have run backward, got {len(self._waiting)} that wait; "
                "try run_backward()"
            )
        if OPTIMIZER not in self.results:
            return
        rate = {RATE: np.asarray(self.learning_rate, np.float32)}
        results = self.run_pass(OPTIMIZER, self._values | rate)
        self._values |= dict(zip(self.results[OPTIMIZER], results, strict=True))

    @property
    def outputs(self) -> list[Described]:
        """Shape and element type of each output."""
        return [described for name, described in self.results[FORWARD].items() if name.startswith("output.")]

    def checkpoint(self) -> Arrays:
        """Returns a copy of each parameter, by name."""
        start = parameter("")
        return {n.removeprefix(start): v.copy() for n, v in self._values.items() if n.startswith(start)}

    def gradients(self) -> Arrays:
        """Returns a copy of each gradient so far, by the parameter's name."""
        return {name: self._values[gradient(name)].copy() for name in self.trained}

    def optimizer_state(self) -> dict[str, Arrays]:
        """Returns what the optimizer has for each parameter that it trains: its learning rate and what it keeps."""
        rate = np.asarray(self.learning_rate, np.float32)
        keys = self.state_names
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

    def kept(self) -> Kept:
        """Returns all that changes: values, and microbatches that wait. No array is copied, as none is written to."""
        return dict(self._values), tuple(self._waiting)

    def restore(self, kept: Kept) -> None:
        """Goes back to what was `kept`."""
        values, waiting = kept
        self._values = dict(values)
        self._waiting.clear()
        self._waiting.extend(waiting)

    def _zero_gradients(self) -> None:
        self._values |= {gradient(name): np.zeros_like(self._values[parameter(name)]) for name in self.trained}
