"""Results of 16 bits by other honest steps than the usual ones, each rounded to the result's type.

Where steps cancel, one way to write a function is 0 and another is not. Granting every element what any of the ways
may be off would excuse a tail that is missing. So a result has to be one way's throughout: where that way, each step
the nearest number, gives another number than the nearest to the right one, nearly all elements are this other number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.otherwise import WAYS, Steps
from opscope.harness.formulas.stepwise import BY_KERNELS, NEAREST, evaluations
from opscope.harness.formulas.traced import NotElementwiseError
from opscope.harness.verdict.meaning import ON_CARD, STEPPED, STEPWISE, ExactOperands

SHOWS = 8.0
"""Units in the last place from which on what rounded steps may be off shows in nearly all elements."""
SHOWN = 24
"""Elements in which it has to show."""
NEAREST_THERE = 0.7
"""Share of these that are the nearest numbers all the same, where no step was rounded."""
CANCELS = 4.0
"""Units in the last place that steps of 16 bits may be off which cancel nowhere."""
TOLD = 0.9
"""Share of the elements by which a way is told that have its very number. Another library's function is off in few."""


def are_these(operands: ExactOperands, got: np.ndarray, index: int) -> bool:
    """Whether a result is what other honest steps of its formula give, each rounded to its type; no element farther off
    than these may be with steps that are a unit off."""
    meaning, target = operands.meaning, operands.target
    within = operands.within()
    narrow = got.dtype.itemsize == 2 and got.dtype != np.int16
    if meaning is None or within is None or not (narrow and meaning.elementwise):
        return False
    if not (target.rounds_steps or target.tiled) or sum(x.size for x in operands.inputs) > STEPPED:
        return False
    right, exact = operands.golden[index].astype(np.float64), operands.exact[index]
    wide = got.astype(np.float64)
    off = np.abs(wide - exact) - within[index]
    for form, several, kind, made in _evaluated(operands, got.dtype, index):
        told = (made != right) & np.isfinite(made)
        if not told.any() or np.mean(wide[told] == made[told]) < TOLD:
            continue
        known = {"flushes": target.tiled, "otherwise": (several,)}
        inputs = [x.astype(np.float64) for x in operands.inputs]
        farthest = np.abs(made - exact)
        for results in evaluations(form, inputs, kind, BY_KERNELS, **known):
            farthest = np.fmax(farthest, np.abs(results[index] - exact))
        alike = (wide == made) | (np.isnan(wide) & np.isnan(right))
        if (alike | (off <= (ON_CARD if target.tiled else STEPWISE) * farthest)).all():
            return True
    return False


def only_in_some(operands: ExactOperands, got: np.ndarray, index: int) -> int:
    """In how many elements a result is right only as steps of 16 bits have it, where nearly all others in which such
    steps would show are the nearest numbers: no evaluation rounds its steps in some elements alone. 0 for any other."""
    meaning, exact = operands.meaning, operands.exact[index]
    if meaning is None or not (meaning.elementwise and meaning.roundings and got.dtype.itemsize == 2):
        return 0
    with np.errstate(all="ignore"):
        unit = last_place(exact, got.dtype)
        off = np.abs(got.astype(np.float64) - exact)
    if not (off > CANCELS * unit).any() or (within := operands.within()) is None:
        return 0
    wide = operands.in_wide_steps()[index]
    coarse = off > wide + CANCELS * unit
    shows = ~coarse & (within[index] - wide >= SHOWS * unit) & (wide <= SHOWS * unit) & np.isfinite(exact)
    if not coarse.any() or np.count_nonzero(shows) < SHOWN or np.mean(off[shows] <= 0.5 * unit[shows]) < NEAREST_THERE:
        return 0
    return 0 if are_these(operands, got, index) else int(np.count_nonzero(coarse))


def _evaluated(
    operands: ExactOperands, dtype: np.dtype, index: int
) -> Iterator[tuple[Callable[..., Any], Steps, np.dtype, np.ndarray]]:
    """Each way to write a formula, how it makes functions in several steps, the type of its steps, its own or float32,
    and what it gives with these the nearest numbers, float64."""
    assert operands.meaning is not None
    inputs = [x.astype(np.float64) for x in operands.inputs]
    for form in operands.meaning.forms:
        for several in ({}, *WAYS):
            for kind in (dtype, np.dtype(np.float32)):
                try:
                    for results in evaluations(form, inputs, kind, NEAREST, operands.target.tiled, (several,)):
                        yield form, several, kind, rounded(results[index], dtype).astype(np.float64)
                except NotElementwiseError:
                    break
