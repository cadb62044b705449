"""Ops whose operands or results are integers or truth values: they have one right answer, computed in integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.base.op_families import NAMES
from opscope.harness.formulas import whole_numbers
from opscope.harness.formulas.whole_numbers import MOST, NotWholeError, is_whole
from opscope.harness.judge.known_op import Asked, UnknownError, no_formula, stated, unfit
from opscope.harness.verdict.meaning import COMPOSITE, Meaning

PLACES = frozenset({"argmax", "argmin"})
"""Formulas whose results are places in their operand."""


def as_floats(x: np.ndarray) -> np.ndarray:
    """Integers as float64, of an op whose results are floats. Raises UnknownError for what is too large for it."""
    numbers = x.astype(np.float64)
    if x.dtype.kind in "iu" and (np.abs(numbers) >= MOST).any():
        raise UnknownError(f"integers of {MOST:g} and more have no float64; give the op as a StableHLO text")
    return numbers


def of_integers(name: str, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Asked:
    """An op of StableHLO on integers or truth values."""

    def made() -> list[tuple[np.ndarray, np.ndarray]]:
        try:
            return [whole_numbers.of_integers(name, inputs, outputs[0].dtype)]
        except (TypeError, ValueError) as error:
            raise unfit(name, inputs, error) from error

    return stated(f"stablehlo.{name}" if name in NAMES else COMPOSITE, f"{name} of integers", outputs, made)


def whole(op_name: str, meaning: Meaning, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Asked:
    """An op or a formula whose results are integers or truth values."""

    def made() -> list[tuple[np.ndarray, np.ndarray]]:
        numbers = [each if is_whole(each) else each.astype(np.float64) for each in inputs]
        try:
            exact = meaning.evaluate([each.astype(np.int64) if _narrow(each) else each for each in numbers])
            if not all(np.isin(y, (0, 1)).all() or np.asarray(y).dtype.kind != "f" for y in exact):
                _ = [as_floats(each) for each in inputs if is_whole(each)]  # which refuses what float64 rounds
            types = [outputs[min(number, len(outputs) - 1)].dtype for number in range(len(exact))]
            made = [whole_numbers.of_numbers(y, kind) for y, kind in zip(exact, types, strict=True)]
            return [_tied(meaning, numbers[0], *made[0], outputs[0])] if meaning.by in PLACES else made
        except NotWholeError:
            raise no_formula(meaning.by, (*inputs, *outputs)) from None
        except (TypeError, ValueError, IndexError) as error:
            raise unfit(meaning.by, inputs, error) from error

    return stated(op_name, f"{meaning.by} in float64", outputs, made)


def _tied(
    meaning: Meaning, x: np.ndarray, right: np.ndarray, unstated: np.ndarray, came: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Places of values, of which any is right that has the value."""
    axis = meaning.given["axis"]
    rows = np.ravel(x)[None] if axis is None else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    if came.shape != right.shape:
        return right, unstated
    there = np.clip(came.astype(np.int64), 0, rows.shape[1] - 1).reshape(-1)
    number = np.arange(len(rows))
    same = (rows[number, there] == rows[number, right.reshape(-1)]) & (there == came.reshape(-1))
    return np.where(same.reshape(right.shape), came, right), unstated


def _narrow(x: np.ndarray) -> bool:
    """Whether an array holds integers of less than 64 bits, whose sums would overflow."""
    return is_whole(x) and x.dtype.kind != "b" and x.dtype.itemsize < 8
