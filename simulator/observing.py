"""What an observer of a run is shown, operation by operation, and what it may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.program import Operation, Program
from opscope.simulator.images import to_host


@dataclass(frozen=True)
class Step:
    """An operation that has just ended, in the entry or in a program that control flow calls."""

    operation: Operation
    program: Program
    _values: Mapping[int, np.ndarray]

    def inputs(self) -> list[np.ndarray]:
        """Its operands as the host would get them: fresh arrays of the declared element types."""
        return [to_host(self._values[tensor], self.program.tensors[tensor]) for tensor in self.operation.inputs]

    def results(self) -> list[np.ndarray]:
        """Its results, likewise."""
        return [to_host(self._values[tensor], self.program.tensors[tensor]) for tensor in self.operation.outputs]


Observer = Callable[[Step], Sequence[np.ndarray] | None]
"""Hears of each operation that has ended. Arrays that it returns take the place of its results from then on."""
