"""Whether an import that is too far from its framework is as far as two right implementations may be.

A model can magnify what every implementation rounds its own way. Its module is computed again with each rounded result
moved by a unit in the last place (`prepare/mlir/last_bits.py`); how far that goes is the model's response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from opscope.harness.prepare import golden, mlir
from opscope.harness.prepare.inputs import row_golden, row_inputs
from opscope.harness.prepare.mlir import last_bits
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.record.records import ImportCheck, OpRow
from opscope.harness.record.stages import ImportStatus
from opscope.harness.verdict import operands

DRAWS = 3
"""Responses that are computed, each with directions of its own."""
FACTOR = 8.0
"""How many times a response two right implementations may be apart: a sum of K terms is off by up to about sqrt(K)
units, not by one. Where only rounding differed, 0.9 to 2.3 times were seen (T5, RegNet)."""
MOST = 0.005
"""Share of the result's own size above which a response holds nothing to account any more."""


class Size(NamedTuple):
    """Root mean square and largest magnitude."""

    mean: float
    largest: float

    @classmethod
    def of(cls, values: np.ndarray) -> Size:
        """The size of finite values; 0 of none."""
        magnitudes = np.abs(operands.wide(values))
        return cls(float(np.sqrt(np.mean(magnitudes**2))), float(magnitudes.max())) if values.size else cls(0.0, 0.0)

    def within(self, other: Size, factor: float) -> bool:
        """Whether both figures are at most so many times those of another."""
        return self.mean <= factor * other.mean and self.largest <= factor * other.largest


class Finding(Enum):
    """What responses say of one result."""

    AGREES, UNKNOWN, DIFFERS = "agrees", "unknown", "differs"


def explained(check: ImportCheck, expected: Sequence[np.ndarray], row: OpRow, folder: Path) -> ImportCheck:
    """A check that found a difference: as it is, or with the status that the model's response gives it.

    `expected` are the framework's results and `row` is the model as a whole, in the export folder `folder`.
    """
    got = row_golden(row, folder)
    if not all(map(_comparable, expected, got)):
        return check
    try:
        responses = list(_responses(row, folder, got))
    except golden.GoldenError:
        return check
    floats = [index for index, each in enumerate(got) if is_float(each)]
    by_result = [
        (_difference(expected[i], got[i]), [each[i] for each in responses], Size.of(_finite(got[i]))) for i in floats
    ]
    findings = [finding(*each) for each in by_result]
    share = max((max(sizes).mean / size.mean for _, sizes, size in by_result if size.mean), default=0.0)
    words = f"one unit in the last place of each op moves its result by up to {share:.2g} of its size"
    if Finding.DIFFERS in findings or not findings:
        return check
    if Finding.UNKNOWN in findings:
        update = {"status": ImportStatus.NOT_CHECKED, "error": f"it is ill-conditioned: {words}; {check.error}"}
    else:
        update = {"status": ImportStatus.AGREES, "error": f"within {FACTOR:g} times what rounding makes of it: {words}"}
    return check.model_copy(update={**update, "output": None, "node": ""})


def finding(error: Size, responses: Sequence[Size], size: Size) -> Finding:
    """Whether an error is one of rounding, by the model's responses and the size of the result.

    Responses above `MOST` of that size are those of a jump (a bucket, a branch): an error like theirs is no proof.
    """
    telling = [each for each in responses if each.mean <= MOST * size.mean]
    if any(error.within(each, FACTOR) for each in telling):
        return Finding.AGREES
    jumps = [each for each in responses if each not in telling]
    return Finding.UNKNOWN if any(error.within(each, FACTOR) for each in jumps) else Finding.DIFFERS


def _responses(row: OpRow, folder: Path, got: Sequence[np.ndarray]) -> Iterator[list[Size]]:
    """How far each result moves, for each draw. Raises GoldenError if XLA does not take the module."""
    assert row.module is not None, "a whole model has a module"
    module, arguments = mlir.load(folder / row.module), row_inputs(row, folder)
    for seed in range(1, DRAWS + 1):
        moved = mlir.to_bytecode(last_bits.moved(module, seed))
        results = golden.compile_module(moved)(arguments)
        yield [_difference(have, each) for have, each in zip(got, results, strict=True)]


def _comparable(want: np.ndarray, have: np.ndarray) -> bool:
    """Whether two results differ at most in the values of finite floats."""
    if want.shape != have.shape:
        return False
    if not is_float(have):
        return bool(np.array_equal(want, have))
    return is_float(want) and bool(np.array_equal(_marks(want), _marks(have)))


def _marks(values: np.ndarray) -> np.ndarray:
    """0 where a value is finite; Inf, -Inf and NaN tell apart."""
    wide = operands.wide(values)
    return np.where(np.isnan(wide), 3, np.where(np.isfinite(wide), 0, 1 + (np.real(wide) > 0)))


def _finite(values: np.ndarray) -> np.ndarray:
    """The finite ones, in one row."""
    wide = operands.wide(values)
    return wide[np.isfinite(wide)]


def _difference(want: np.ndarray, have: np.ndarray) -> Size:
    """The size of what finite elements differ by."""
    if not is_float(have):
        return Size(0.0, 0.0)
    left, right = operands.wide(want), operands.wide(have)
    both = np.isfinite(left) & np.isfinite(right)
    return Size.of(left[both] - right[both])
