"""Finds the operation in which the first NaN, and the first infinity, of a run arises, as an observer.

An operation is the origin where a result has a NaN and no operand has one. Infinities are looked for by themselves:
a program may hold them on purpose, as where attention is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opscope.simulator.observing import Step


@dataclass(frozen=True)
class Origin:
    """Where the first value of a kind that is not finite arises."""

    what: str
    """`NaN` or `Inf`."""
    number: int
    """Of the operation in the order of execution, from 0."""
    kernel: str
    location: str
    index: tuple[int, ...]
    """Of the first such element."""
    count: int
    from_input: bool
    """Whether an operand has one already, though no operation made it: the program's input does."""

    def line(self) -> str:
        """One line for people."""
        where = f"{self.kernel} ({self.location})" if self.location else self.kernel
        source = "of an input of the program, first read by" if self.from_input else "arises in"
        return (
            f"first {self.what}: {source} operation {self.number}, {where}: element {self.index}, {self.count} in all"
        )


class NonFinite:
    """Watches a run; `origins` has at most one entry for NaN and one for Inf."""

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self._number = -1

    def observe(self, step: Step) -> None:
        """Looks at the results of an operation."""
        self._number += 1
        for what, test in _TESTS.items():
            if what in self.origins:
                continue
            for tensor in step.operation.outputs:
                image = step.image(tensor)
                if image.dtype.kind != "f" or not (hits := test(image)).any():
                    continue
                operands = (step.image(t) for t in step.operation.inputs)
                inherited = any(o.dtype.kind == "f" and bool(test(o).any()) for o in operands)
                index = tuple(int(i) for i in np.unravel_index(int(hits.argmax()), image.shape)) if image.shape else ()
                self.origins[what] = Origin(
                    what,
                    self._number,
                    step.operation.kernel,
                    step.operation.location,
                    index,
                    int(hits.sum()),
                    inherited,
                )
                break

    def lines(self) -> list[str]:
        """What was found, one line each."""
        return [origin.line() for origin in self.origins.values()]


_TESTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"NaN": np.isnan, "Inf": np.isinf}
