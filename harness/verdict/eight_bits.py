"""Results of 8 bits or fewer of a host: their bound is several numbers wide, so each has to be one of a few numbers.

A single step, and a sum, is computed in float16 or wider and rounded once. Of several steps each is rounded or is not,
as a compiler has it that makes one loop of some, and so in all elements alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.stepwise import EXACT, Way, evaluations
from opscope.harness.formulas.traced import NotElementwiseError
from opscope.harness.verdict.meaning import ExactOperands
from opscope.harness.verdict.operands import NotEvaluatedError, Operands, wide
from opscope.harness.verdict.rounding import smallest_normal
from opscope.harness.verdict.steps import FLOAT32, GOLDEN_HALVES, Steps, unit

HALF = np.dtype(np.float16)
ORDERS = 4.0
"""Deviations of a sum in float16 that one order of its terms may be off another."""
HANDS_ON = frozenset((np.absolute, np.maximum, np.minimum, np.negative, np.where))
"""Functions whose results are numbers of their operands' type, so that nothing is rounded."""
ALL_WAYS = 6
"""Steps up to which all choices of rounded ones are tried."""
NEAR = 0.9
"""Share of the elements that are a way's at once, if it is the way: others come near a tie somewhere."""
MOST = 1 << 17
"""Elements of several steps that are looked at, evenly spread; single ones are held to their bound."""


def not_nearest(steps: Steps, operands: Operands, right: np.ndarray, got: np.ndarray, index: int) -> str:
    """Why a result of one step, or of one sum, is no nearest number; empty if it is, or is what XLA makes of the module
    as it is written. Raises NotEvaluatedError if XLA refuses."""
    exact = wide(operands.run_wide()[index])
    as_written = operands.run_as_written()[index] if operands.module else right
    with np.errstate(all="ignore"):
        size, off = np.abs(exact), np.abs(wide(got) - exact)
        if steps.error_model == "sum":
            terms = operands.term_sizes[index] if operands.sums else size
            off -= ORDERS * steps.added * unit("Float16") / FLOAT32 * np.maximum(size, terms)
        else:
            off -= steps.in_float16 * size + steps.reduced + steps.cancelled
        off -= last_place(exact, got.dtype) / 2
        flushed = (wide(got) == 0) & (size < smallest_normal(HALF))
        known = np.isfinite(off) & (size < float(ml_dtypes.finfo(got.dtype).max)) & ~flushed & (got != as_written)
    off = np.where(known, off, 0.0)
    at = int(np.argmax(off)) if off.size else 0
    if not off.size or not off.flat[at] > 0:
        return ""
    return f"{float(got.flat[at]):.6g} is not rounded to nearest from {float(exact.flat[at]):.9g} at element {at}"


def by_one_way(operands: ExactOperands, got: np.ndarray, index: int) -> bool | None:
    """Whether a result of several steps is what they give with some of them rounded to its type, the same in all
    elements, or what XLA makes of the module; None where their steps are not known."""
    meaning = operands.meaning
    if meaning is None or meaning.steps is None or not (meaning.known_steps and meaning.elementwise):
        return None
    shape = got.shape
    if not got.size or any(x.shape != shape for x in operands.inputs):
        return None
    try:
        if _alike(Operands.run_as_written(operands)[index], got).all():
            return True
    except NotEvaluatedError:
        pass
    some = slice(None, None, -(-got.size // MOST))
    came, inputs = np.ravel(got)[some], [np.ravel(x)[some].astype(np.float64) for x in operands.inputs]
    with np.errstate(all="ignore"):
        size = np.broadcast_to(meaning.sizes(inputs)[index], came.shape)
        slack = unit("Float16") * size + unit("Float16") * smallest_normal(HALF) * (1 + sum(map(np.abs, inputs)))
    try:
        count = _count(meaning.steps, inputs[0][:1], len(inputs), got.dtype)
        for chosen in _choices(count):
            left = _unlike(_evaluated(meaning.steps, inputs, got.dtype, _Step(chosen)), came, slack, index)
            if np.mean(left) > 1 - NEAR:
                continue
            places = np.flatnonzero(left)
            for step in _besides(chosen):
                if places.size:
                    made = _evaluated(meaning.steps, [x[places] for x in inputs], got.dtype, step)
                    places = places[_unlike(made, came[places], slack[places], index)]
            if not places.size:
                return True
    except NotElementwiseError:
        return None
    return False


@dataclass(frozen=True)
class _Step:
    """How each step of an evaluation is rounded: as `stepwise.Rounding` has it."""

    chosen: Callable[[int], bool]
    """Number of a step, those of `HANDS_ON` not counted -> whether it is rounded to the result's type."""
    in_float16: bool = False
    """Whether what is computed is rounded to float16 first."""
    off: Callable[[int], int] = lambda _: 0
    """Number of a step -> 1 where a library's function is larger than it should be, -1 where it is smaller."""

    def way(self) -> Way:
        """The evaluation whose steps are so."""
        numbers = iter(range(1 << 30))

        def rounding(_: int, function: Callable[..., Any], exact: np.ndarray, dtype: np.dtype) -> np.ndarray:
            if function in HANDS_ON:
                return exact
            number = next(numbers)
            if function not in EXACT and (to := self.off(number)):
                exact = exact * (1 + to * GOLDEN_HALVES * unit("Float16"))
            if self.in_float16:
                exact = exact.astype(HALF).astype(np.float64)
            return rounded(exact, dtype).astype(np.float64) if self.chosen(number) else exact

        return Way(rounding, several=False)


def _evaluated(function: Callable[..., Any], inputs: list[np.ndarray], dtype: np.dtype, step: _Step) -> np.ndarray:
    with np.errstate(all="ignore"):
        ((made,),) = evaluations(function, inputs, dtype, [step.way()])
    return np.broadcast_to(made, inputs[0].shape)


def _count(function: Callable[..., Any], x: np.ndarray, operands: int, dtype: np.dtype) -> int:
    """How many steps are rounded or not."""
    seen = set[int]()
    _evaluated(function, [x] * operands, dtype, _Step(lambda number: bool(seen.add(number))))
    return len(seen)


def _choices(count: int) -> Iterator[Callable[[int], bool]]:
    """Which steps are rounded: none, each but the last, which is always, and what lies between."""
    several = max(count - 1, 0)
    if several > ALL_WAYS:
        yield lambda number: number < several
        yield lambda number: False
        for bit in range(3):
            for where in (0, 1):
                yield lambda number, bit=bit, where=where: number < several and number >> bit & 1 == where
        return
    for bits in sorted(range(1 << several), key=lambda bits: -bits.bit_count() if bits else -several):
        yield lambda number, bits=bits: bool(bits >> number & 1)


def _besides(chosen: Callable[[int], bool]) -> Iterator[_Step]:
    """The same steps in float16, and as a library's functions may be off in it."""
    yield _Step(chosen, in_float16=True)
    for to in (1, -1):
        yield _Step(chosen, in_float16=True, off=lambda _, to=to: to)
        for bit in range(3):
            yield _Step(chosen, in_float16=True, off=lambda number, bit=bit, to=to: to if number >> bit & 1 else -to)


def _unlike(made: np.ndarray, got: np.ndarray, slack: np.ndarray, index: int) -> np.ndarray:
    """Which results are not nearest numbers to what the last step gave, up to what float16 may cost."""
    with np.errstate(all="ignore"):
        off = np.abs(wide(got) - made) - last_place(made, got.dtype) / 2 - slack
        near = [_alike(rounded(made + to * slack, got.dtype), got) for to in (0.0, 1.0, -1.0)]
    return ~((off <= 0) | np.logical_or.reduce(near))


def _alike(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return (a == b) | ((a != a) & (b != b))
