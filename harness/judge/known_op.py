"""An op whose right results are known: what a verdict takes besides the results, and why there may be none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from opscope.harness.record.errors import InputError
from opscope.harness.verdict.check import element_type
from opscope.harness.verdict.meaning import ExactOperands
from opscope.harness.verdict.operands import NotEvaluatedError, Operands


class UnknownError(Exception):
    """Nobody knows what the right result is; the text says why."""


@dataclass
class Asked:
    """An op on known inputs: what the verdict takes besides the results."""

    op_name: str
    by: str
    """Who makes the golden: `gelu in float64`, `XLA, jaxlib 0.10.2`, `the caller`."""
    operands: Operands | None
    golden_of: Callable[[], list[np.ndarray]] = field(repr=False)
    params: dict[str, str] = field(default_factory=dict)
    chooses: bool = False
    """Whether its results are values of its operands, so that no error is right."""

    @cached_property
    def golden(self) -> list[np.ndarray]:
        """The right results, each rounded once. Raises UnknownError."""
        try:
            return self.golden_of()
        except NotEvaluatedError as error:
            raise UnknownError(str(error)) from error

    @property
    def exact(self) -> list[np.ndarray] | None:
        """The right results in float64, before they are rounded; None if only rounded ones are known."""
        return self.operands.exact if isinstance(self.operands, ExactOperands) else None


def of_golden(golden: Sequence[np.ndarray]) -> Asked:
    """An op of which nothing is known but its right results."""
    return Asked("", "the caller", None, lambda: list(golden))


def stated(
    op_name: str, by: str, outputs: Sequence[np.ndarray], of: Callable[[], list[tuple[np.ndarray, np.ndarray]]]
) -> Asked:
    """An op whose results have one right value each, but for elements of which nothing says what comes: `of` gives
    both."""

    def golden() -> list[np.ndarray]:
        made = of()
        if all(unstated.all() and unstated.size for _, unstated in made):
            raise UnknownError(f"nothing says what {by} gives for any of these elements")
        came = [outputs[min(number, len(outputs) - 1)] for number in range(len(made))]
        return [
            np.where(unstated, y, right) if unstated.any() and y.shape == right.shape else right
            for (right, unstated), y in zip(made, came, strict=True)
        ]

    return Asked(op_name, by, None, golden)


def no_formula(by: str, tensors: Sequence[np.ndarray]) -> UnknownError:
    """Of an op that has no formula for tensors of such types."""
    kinds = ", ".join(dict.fromkeys(element_type(each.dtype) for each in tensors))
    return UnknownError(f"{by} of {kinds} has no formula; give it as a StableHLO text, or with golden=")


def unfit(by: str, inputs: Sequence[np.ndarray], error: Exception) -> InputError:
    """Of operands and attributes that an op cannot be computed on, by what NumPy said."""
    got = ", ".join(f"{each.dtype}{list(each.shape)}" for each in inputs)
    return InputError("inputs", f"operands and attributes of {by} that fit", f"{got}: {error}")
