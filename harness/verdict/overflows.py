"""Where honest steps overflow that a formula does not have, or the other way round.

A result whose exact value is about the largest number of its type may be Infinity or a number, by as much as its steps
may be off. In an op's own type of 16 bits a step may overflow whose result would be a number again: XLA's x * x of
float16 is Infinity from 256 on, and Infinity times 0 is NaN. That is the body's result, right as such.
"""

from __future__ import annotations

import numpy as np

from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.stepwise import LIBRARY, NEAREST, evaluations
from opscope.harness.formulas.traced import NotElementwiseError
from opscope.harness.prepare.operand_sizes import is_float
from opscope.harness.verdict.meaning import ExactOperands, placed


def settled(operands: ExactOperands, golden: np.ndarray, got: np.ndarray, index: int) -> tuple[np.ndarray, bool]:
    """The golden, with what came in its place where one of the two is no number and the other may be; and whether some
    of it is so as the op's body has it."""
    known = operands.meaning is not None and operands.meaning.elementwise and is_float(golden)
    if not known or (np.isfinite(golden).all() and np.isfinite(got).all()):
        return golden, False
    right, came = _wide(golden), _wide(got)
    other = ~((right == came) | (np.isnan(right) & np.isnan(came)) | (np.isfinite(right) & np.isfinite(came)))
    within = operands.within() if other.any() else None
    if within is None:
        return golden, False
    exact, most = operands.exact[index], within[index]
    with np.errstate(all="ignore"):
        near = np.isinf(right) & (np.abs(came - exact) <= most + last_place(exact, got.dtype) / 2)
        # Where the body's steps end in no number, what other steps may be off says nothing.
        near |= np.isnan(right) & (np.abs(came - exact) <= LIBRARY * np.abs(exact) + last_place(exact, got.dtype))
        too_large = np.isinf(_wide(rounded(np.abs(exact) + most, got.dtype)))
        near |= np.isfinite(right) & (came == np.copysign(np.inf, exact)) & too_large
    by_steps = other & ~near
    if by_steps.any():
        by_steps &= _by_steps(operands, came, got.dtype, index)
    if not (near | by_steps).any():
        return golden, False
    return np.where(near | by_steps, got, golden), bool(by_steps.any())


def _by_steps(operands: ExactOperands, came: np.ndarray, dtype: np.dtype, index: int) -> np.ndarray:
    """Which results are no numbers and the body's, with each step rounded to their type of 16 bits."""
    meaning, found = operands.meaning, np.zeros(came.shape, bool)
    if meaning is None or meaning.steps is None or dtype.itemsize != 2 or not operands.target.rounds_steps:
        return found
    inputs, places = operands.distinct(operands.inputs)
    try:
        for results in evaluations(meaning.steps, inputs, dtype, NEAREST):
            made = placed(_wide(rounded(results[index], dtype)), places, came.shape)
            found |= ~np.isfinite(came) & ((made == came) | (np.isnan(made) & np.isnan(came)))
    except NotElementwiseError:
        return np.zeros(came.shape, bool)
    return found


def _wide(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # bfloat16 casts a NaN with a warning
        return x.astype(np.float64)
