"""What a hypothesis is tested on: a wrong result beside its golden, and how well a prediction fits it.

A hypothesis predicts what the device would have given. It fits if the prediction is right, within the verdict's own
limits, where the result was wrong, and stays right elsewhere. Large results are tested on a seeded sample of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from opscope.harness.explain.element_errors import ElementErrors, Judged

SAMPLE = 1 << 15
"""Elements that are tested, of the wrong ones and of the others."""
FITS = 0.99
"""Share of the wrong elements that a prediction must explain, and of the others that it must leave right."""
POWER = 8.0
"""A prediction must be so many times nearer to the result than the golden is: noise that happens to lie within its
limits explains nothing."""
At = tuple[np.ndarray, ...]


class Evidence:
    """One wrong result. Arrays are float64 (or complex128) where they are named `_values`."""

    def __init__(self, judged: Judged, index: int, errors: ElementErrors) -> None:
        self.judged, self.index, self.errors = judged, index, errors.as_row()
        self.golden, self.got = self.errors.golden, self.errors.got
        self.shape = self.golden.shape

    @cached_property
    def suspects(self) -> np.ndarray:
        """The elements that a hypothesis has to explain: those beyond their limit."""
        return self.errors.wrong

    @cached_property
    def wrong_count(self) -> int:
        """How many elements are beyond their limit; none if only their mean or their place is wrong."""
        return int(np.count_nonzero(self.suspects))

    @cached_property
    def wrong_at(self) -> At:
        """A sample of the elements beyond their limit."""
        return self._sampled(self.suspects)

    @cached_property
    def right_at(self) -> At:
        """A sample of the others."""
        return self._sampled(~self.suspects)

    @cached_property
    def all_at(self) -> At:
        """A sample of all elements."""
        return self._sampled(np.ones(self.shape, bool))

    def _sampled(self, mask: np.ndarray) -> At:
        flat = np.flatnonzero(mask)
        if flat.size > SAMPLE:
            flat = np.sort(np.random.default_rng(0).choice(flat, SAMPLE, replace=False))
        return np.unravel_index(flat, self.shape)

    def golden_values(self, at: At) -> np.ndarray:
        """The golden at some elements."""
        return values(self.golden, at)

    def got_values(self, at: At) -> np.ndarray:
        """The result at some elements."""
        return values(self.got, at)

    def allowed(self, at: At) -> np.ndarray:
        """How large an honest error is at most, at some elements."""
        return self.errors.allowed(at)

    @property
    def finite(self) -> bool:
        """Whether the wrong elements, and what they should be, are finite real numbers."""
        if self.golden.dtype.kind == "c":
            return False
        both = self.golden_values(self.wrong_at), self.got_values(self.wrong_at)
        return all(bool(np.isfinite(part).all()) for part in both)

    @property
    def tiled(self) -> bool:
        """Whether the requested target holds tensors in tiles."""
        return self.judged.target.tiled

    @property
    def in_blocks(self) -> bool:
        """Whether the requested target computes in a block format."""
        return self.errors.steps is not None and self.errors.steps.block

    def explains(
        self,
        predict: Callable[[At], np.ndarray],
        allow: Callable[[At], np.ndarray] | None = None,
        within: Callable[[At], np.ndarray] | None = None,
    ) -> bool:
        """Whether a prediction of every element is what the device gave.

        `predict` returns the values at some elements, `allow` how far each may be off (default: as its
        golden), `within` which of them it speaks of (the edges of a shift are unknown).
        """
        if not self.wrong_count:
            return False
        before, after, allowed = self._residuals(self.wrong_at, predict, allow, within)
        if not before.size or np.count_nonzero(after <= allowed) < FITS * after.size:
            return False
        if not np.median(before) >= POWER * np.median(after):
            return False
        _, after, allowed = self._residuals(self.right_at, predict, allow, within)
        return bool(np.count_nonzero(after <= allowed) >= FITS * after.size)

    def explains_wrong(
        self, predict: Callable[[At], np.ndarray], allow: Callable[[At], np.ndarray] | None = None
    ) -> bool:
        """Whether a prediction is what the device gave where it was wrong; elsewhere nothing is predicted."""
        if not self.wrong_count:
            return False
        before, after, allowed = self._residuals(self.wrong_at, predict, allow, None)
        fits = bool(np.count_nonzero(after <= allowed) >= FITS * after.size)
        return fits and bool(np.median(before) >= POWER * np.median(after))

    def _residuals(
        self,
        at: At,
        predict: Callable[[At], np.ndarray],
        allow: Callable[[At], np.ndarray] | None,
        within: Callable[[At], np.ndarray] | None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of some elements: how far the golden and the prediction are from the result, and how far they may be."""
        if within is not None:
            kept = within(at)
            at = tuple(axis[kept] for axis in at)
        got, predicted = self.got_values(at), predict(at)
        with np.errstate(all="ignore"):
            before, after = (np.abs(got - other) for other in (self.golden_values(at), predicted))
        same = (got == predicted) | (np.isnan(got) & np.isnan(predicted))
        after = np.where(same, 0.0, np.nan_to_num(after, nan=np.inf, posinf=np.inf))
        allowed = self.allowed(at) if allow is None else np.maximum(allow(at), self.allowed(at))
        return np.nan_to_num(before, nan=np.inf, posinf=np.inf), after, allowed

    def run(self, inputs: list[np.ndarray]) -> np.ndarray | None:
        """The op on other inputs, computed by XLA; None if it has no module or XLA refuses."""
        from opscope.harness.verdict.operands import NotEvaluatedError

        operands = self.judged.operands
        if operands is None:
            return None
        try:
            result = np.atleast_1d(operands.run(inputs)[self.index])
        except (NotEvaluatedError, IndexError, ValueError):
            return None
        return result if result.shape == self.shape else None

    @cached_property
    def inputs(self) -> list[np.ndarray]:
        """The op's inputs; none if they are not known."""
        return [] if self.judged.operands is None else list(self.judged.operands.inputs)

    def share(self, count: int) -> str:
        """`1,024 of 4,096 elements`."""
        return f"{count:,} of {self.golden.size:,} elements"


def values(array: np.ndarray, at: At) -> np.ndarray:
    """Elements of an array as float64, or complex128."""
    chosen = array[at] if array.ndim else array.reshape(1)
    return np.atleast_1d(chosen.astype(np.complex128 if array.dtype.kind == "c" else np.float64))


def of_array(predicted: np.ndarray) -> Callable[[At], np.ndarray]:
    """The prediction that an array in the result's shape makes."""
    return lambda at: values(predicted, at)
