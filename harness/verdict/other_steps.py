"""Results of 16 bits by other honest steps than the usual ones, each rounded to the result's type.

Where steps cancel, one way to write a function is 0 and another is not. Granting every element what any of the ways
may be off would excuse a tail that is missing. So a result has to be one way's throughout: where that way, each step
the nearest number, gives another number than the nearest to the right one, nearly all elements are this other number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.otherwise import WAYS, Steps
from opscope.harness.formulas.stepwise import BY_HOST, BY_KERNELS, IN_STEPS, NEAREST, evaluations
from opscope.harness.formulas.traced import NotElementwiseError, Traced
from opscope.harness.verdict.meaning import ON_CARD, STEPWISE, ExactOperands, Meaning, placed

SHOWS = 8.0
"""Units in the last place from which on what rounded steps may be off shows in nearly all elements."""
SHOWN = 24
"""Elements in which it has to show."""
NEAREST_THERE = 0.7
"""Share of these that are the nearest numbers all the same, where no step was rounded."""
MANY = 1 << 18
"""Numbers above which trying each way takes seconds: there none is tried."""
LIBRARIES = 6.0
"""How much farther off a library's function of float32 may be, 1e-5, than 32 half units."""
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
    inputs, places = operands.distinct(operands.inputs)
    if not (target.rounds_steps or target.tiled) or sum(x.size for x in inputs) > MANY:
        return False
    right, exact = operands.golden[index].astype(np.float64), operands.exact[index]
    wide = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(wide - exact) - within[index]
    by = BY_HOST if meaning.known_steps else BY_KERNELS
    for way in () if meaning.known_steps and target.tiled else _ways(meaning, len(inputs), got.dtype):
        known = {"flushes": target.tiled, "otherwise": (way.several,)}
        try:
            nearest = [
                rounded(placed(results[index], places, got.shape), got.dtype).astype(np.float64)
                for results in evaluations(way.form, inputs, way.kind, NEAREST, **known)
            ]
        except NotElementwiseError:
            continue
        for made in nearest:
            told = (made != right) & np.isfinite(made)
            if not told.any() or np.mean(wide[told] == made[told]) < TOLD:
                continue
            several = evaluations(way.form, inputs, way.kind, by, **known)
            with np.errstate(invalid="ignore"):
                others = [placed(results[index], places, got.shape) - exact for results in several]
                farthest = np.fmax.reduce([np.abs(each) for each in (made - exact, *others)])
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
    finite = np.isfinite(off)  # a value that overflows is infinite, and shows nothing
    off = np.where(finite, off, 0.0)
    if not (off > CANCELS * unit).any() or (within := operands.within()) is None:
        return 0
    wide = operands.in_wide_steps()[index]
    coarse = off > LIBRARIES * wide + CANCELS * unit
    shows = ~coarse & (within[index] - wide >= SHOWS * unit) & (wide <= SHOWS * unit) & finite
    if not coarse.any() or np.count_nonzero(shows) < SHOWN:
        return 0
    shows &= _off_where_rounded(operands, got, index, exact) > unit
    if np.count_nonzero(shows) < SHOWN or np.mean(off[shows] <= 0.5 * unit[shows]) < NEAREST_THERE:
        return 0
    return 0 if are_these(operands, got, index) else int(np.count_nonzero(coarse))


def _off_where_rounded(operands: ExactOperands, got: np.ndarray, index: int, exact: np.ndarray) -> np.ndarray:
    """How far off its usual steps are with each the nearest number; infinite where these are not known."""
    meaning = operands.meaning
    assert meaning is not None
    inputs, places = operands.distinct(operands.inputs)
    if meaning.steps is None or sum(x.size for x in inputs) > MANY:
        return np.full(got.shape, np.inf)
    try:
        (results,) = evaluations(meaning.steps, inputs, got.dtype, NEAREST[:1], flushes=operands.target.tiled)
    except NotElementwiseError:
        return np.full(got.shape, np.inf)
    with np.errstate(invalid="ignore"):
        return np.abs(placed(results[index], places, got.shape) - exact)


class _Way(NamedTuple):
    """One way to write a formula."""

    form: Callable[..., Any]
    several: Steps
    """How functions are made in several steps."""
    kind: np.dtype
    """What its steps are rounded to."""


def _ways(meaning: Meaning, operands: int, dtype: np.dtype) -> list[_Way]:
    """All ways to write a formula that are known, each with its steps in its own type and in float32. Of a known body
    those in which a host makes some of its functions of several steps."""
    kinds = (dtype, np.dtype(np.float32))
    if not meaning.known_steps or meaning.steps is None:
        return [_Way(form, several, kind) for form in meaning.forms for several in ({}, *WAYS) for kind in kinds]
    found = []
    for way in WAYS:
        several = {function: steps for function, steps in way.items() if function in IN_STEPS}
        made = meaning.steps(*(Traced(np.ones(()), way=several) for _ in range(operands)))
        if isinstance(made, Traced) and made.other:
            found += [_Way(meaning.steps, several, kind) for kind in kinds]
    return found
