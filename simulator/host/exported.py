"""A module as its exporter gives it: StableHLO, its arguments, and the values of those that are parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec


@dataclass(frozen=True)
class Exported:
    """One module, for inputs of certain shapes."""

    name: str
    bytecode: bytes
    arguments: tuple[ArgSpec, ...]
    """One per argument of the entry function; the role of each says whether it is an input."""
    values: Mapping[str, np.ndarray]
    """Argument that is no input -> its value."""
    held: Mapping[str, Any] = field(default_factory=dict)
    """Argument -> the object that a module holds as its value; another one then means another value."""
    taps: tuple[tuple[str, int], ...] = ()
    """The last results are these: op and number of its output."""

    @property
    def inputs(self) -> tuple[ArgSpec, ...]:
        """The arguments that come in with each run, in order."""
        return tuple(spec for spec in self.arguments if spec.role == "input")

    @property
    def parameters(self) -> frozenset[int]:
        """The numbers of the arguments that are no inputs."""
        return frozenset(i for i, spec in enumerate(self.arguments) if spec.role != "input")

    def in_order(self, inputs: Sequence[np.ndarray], values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Returns all arguments: inputs, and parameters from `values`."""
        given = iter(inputs)
        return [next(given) if spec.role == "input" else values[spec.name] for spec in self.arguments]
