"""Observers of a run, which are called after each operation and may change its results."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.program import Operation, Program
from opscope.simulator.images import is_held, to_host, widened


@dataclass(frozen=True)
class Step:
    """An operation that has just been executed, in the entry or in a program that control flow calls."""

    operation: Operation
    program: Program
    _values: MutableMapping[int, np.ndarray]

    def inputs(self) -> list[np.ndarray]:
        """Returns its operands as the host would get them: fresh arrays of the declared element types."""
        return [to_host(self._values[tensor], self.program.tensors[tensor]) for tensor in self.operation.inputs]

    def results(self) -> list[np.ndarray]:
        """Returns its results in the same form."""
        return [to_host(self._values[tensor], self.program.tensors[tensor]) for tensor in self.operation.outputs]

    def image(self, tensor: int) -> np.ndarray:
        """Returns an operand or a result as the device holds it (`images.py`); it must not be written to."""
        image = self._values[tensor]
        return widened(image) if is_held(image, self.program.tensors[tensor]) else image

    def store(self, tensor: int, image: np.ndarray) -> None:
        """Puts another image in the place of a tensor's, bit by bit: what reads the tensor next reads it."""
        self._values[tensor] = image


Observer = Callable[[Step], Sequence[np.ndarray] | None]
"""Called after each operation. If it returns arrays, they replace the results of the operation."""


def all_of(observers: Sequence[Observer]) -> Observer:
    """An observer that calls several in order; each sees what those before it changed, and none returns arrays."""

    def observe(step: Step) -> None:
        for observer in observers:
            observer(step)

    return observe
