"""A module as its exporter gives it: StableHLO, its arguments, and the values of those that are parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.models.arguments import ArgSpec
from opscope.simulator.host.hosted_program import XlaProgram


@dataclass(frozen=True)
class Exported:
    """One module, for inputs of certain shapes."""

    name: str
    bytecode: bytes
    arguments: tuple[ArgSpec, ...]
    """One per argument of the entry function; the role of each says whether it is an input."""
    values: Mapping[str, np.ndarray]
    """Argument that is no input -> its value."""
    objects: Mapping[str, Any] = field(default_factory=dict)
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

    @property
    def hosted(self) -> XlaProgram:
        """It as XLA computes it on the CPU."""
        names = tuple(spec.name for spec in self.arguments)
        return XlaProgram(self.name, names, tuple(spec.role == "input" for spec in self.arguments), self.bytecode)
