"""What the steps of an elementwise op give on a card where they meet what it treats otherwise than a host: NaN,
infinities, and denormals.

By tenstorrent/tt-isa-documentation, WormholeB0 and BlackholeA0: denormals are zeros in operands and results
(SFPMAD.md); a NaN is packed into 16 bits as Infinity, -0 as 0 (Packers/FormatConversion.md); float16 has neither, and
the highest exponent is a number to the matrix unit, which adds bfloat16 and float16 and multiplies float16
(FloatBitPatterns.md, ELWADD.md, ELWMUL.md). Each step may be a unit off, as of any kernel. An element that meets
nothing of the kind is held to the op's function alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from opscope.harness.formulas.nearest import precision, rounded
from opscope.harness.formulas.stepwise import BY_KERNELS, Evaluation, Rounded, Way

MOST = 1 << 18
"""Elements above which evaluating them takes seconds: none is."""
ADDS = (np.add, np.subtract)
Function = Callable[..., Any]


class _Rules(NamedTuple):
    """How one evaluation takes what differs between cards, or public text leaves open."""

    signed: bool
    """Whether zeros keep their sign in a register, as Blackhole's do."""
    packs_sign: bool
    """Whether they keep it where they are packed, as what is not rounded does."""
    sign: int
    """The sign of the Infinity that is packed for a NaN; 0: the NaN's own."""
    cut: float
    """What the matrix unit leaves of a product's operands, relative to the whole."""


class _OnCard(Evaluation):
    """One evaluation."""

    def __init__(self, dtype: np.dtype, way: Way, rules: _Rules, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, way, True, {})
        self._rules, self.met = rules, np.zeros(shape, bool)
        self._narrow, half = dtype.itemsize == 2, dtype == np.float16
        self._top = 131008.0 if half else 2.0**128
        """What the matrix unit takes an Infinity for."""
        self._by_unit = (*ADDS, np.multiply) if half else ADDS if self._narrow else ()

    def read(self, x: np.ndarray) -> _Value:
        """An operand as it lies in memory; a NaN of 16 bits is the number of its bits to the matrix unit, in float16 to
        all units."""
        value = number = x.astype(np.float64)
        if self._narrow and np.isnan(value).any():
            pattern, kept = np.ascontiguousarray(x).view(np.uint16), precision(x.dtype)[0]
            size = (1 + (pattern & (1 << kept) - 1) / 2.0**kept) * 2.0 ** (16 if x.dtype == np.float16 else 128)
            number = np.where(np.isnan(value), np.where(pattern >> 15, -size, size), value)
            if x.dtype == np.float16:
                self.met |= np.isnan(value)
                value = number
        return self._left(value, number)

    def take(self, function: Function, operands: Sequence[Any]) -> Any:
        """The result of one step, as it is packed; of a comparison, which the vector unit makes, as it is."""
        values = np.broadcast_arrays(*(each.value if isinstance(each, Rounded) else each for each in operands))
        result = np.asarray(function(*values))
        if result.dtype.kind != "f":
            return result
        if function in self._by_unit:
            numbers = (each.number if isinstance(each, _Value) else each for each in operands)
            result = np.where(np.isfinite(result), result, function(*numbers))
        elif function is np.multiply and self._narrow:
            zero = np.any([(x == 0) & ~(np.signbit(x) & self._rules.signed) for x in values], axis=0)
            result = np.where(zero & np.isnan(result), 0.0, result)
        if function is np.multiply and self._narrow:
            result = result * (1 - self._rules.cut)
        near = np.where(np.isfinite(result), self.rounded(function, result), result)
        near = near if self._rules.packs_sign else near + 0.0
        if self._narrow:
            self.met |= np.isnan(near)
            sign = self._rules.sign or np.where(np.signbit(near), -1.0, 1.0)
            near = np.where(np.isnan(near), sign * np.inf, near)
        return self._left(near, near)

    def _left(self, value: np.ndarray, number: np.ndarray) -> _Value:
        """A value without denormals, and the number that the matrix unit takes it for."""
        small = (np.abs(value) < self.least) & (value != 0)
        self.met |= small | ~np.isfinite(value)  # as is what a zero's sign makes a difference to
        value = np.where(small, np.copysign(0.0, value), value)
        value = value if self._rules.signed else value + 0.0
        number = np.where(np.isinf(number), np.copysign(self._top, number), np.where(small, 0.0, number))
        return _Value(value, self, number)


class _Value(Rounded):
    """A value of an evaluation, and the number that the matrix unit takes it for."""

    def __init__(self, value: np.ndarray, steps: _OnCard, number: np.ndarray) -> None:
        super().__init__(value, steps)
        self.number = number


def right(ways: Sequence[Function], operands: Sequence[np.ndarray], got: np.ndarray, cut: float = 0.0) -> np.ndarray:
    """Which elements of a result are what one of several ways to compute it gives on a card, of those that meet a value
    that this treats otherwise. Operands and result have one shape and type; a way is a function of NumPy's
    functions of single elements. `cut`: most that the matrix unit leaves out of a product, relative.

    Raises NotElementwiseError where a step is another function.
    """
    came, found = got.astype(np.float64), np.zeros(got.shape, bool)
    for way in ways:
        for signed, packs_sign in ((True, True), (True, False), (False, False)):
            for sign in (0, 1, -1):
                low, high, met = np.full(got.shape, np.inf), np.full(got.shape, -np.inf), np.zeros(got.shape, bool)
                for rounding in BY_KERNELS if not sign else BY_KERNELS[:1]:
                    for lost in {0.0, cut}:
                        steps = _OnCard(got.dtype, rounding, _Rules(signed, packs_sign, sign, lost), got.shape)
                        made = _result(way, [steps.read(x) for x in operands], got)
                        met |= steps.met
                        found |= steps.met & ((came == made) | (np.isnan(came) & np.isnan(made)))
                        low, high = np.fmin(low, made), np.fmax(high, made)
                with np.errstate(invalid="ignore"):
                    found |= met & np.isfinite(low) & np.isfinite(high) & (came >= low) & (came <= high)
    return found


def _result(way: Function, operands: Sequence[_Value], got: np.ndarray) -> np.ndarray:
    """What a way makes of operands, rounded to a result's type, float64."""
    with np.errstate(all="ignore"):
        made = way(*operands)
        value = np.asarray(made.value if isinstance(made, Rounded) else made, np.float64)
        return np.broadcast_to(rounded(value, got.dtype).astype(np.float64), got.shape)


def one_step(function: Function) -> Function:
    """A function that one kernel computes, as a way."""
    return lambda *operands: operands[0].take_step(function, *operands)
