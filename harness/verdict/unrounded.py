"""What a result was before it was rounded to 16 bits: which elements were ties, and which were equal.

A packer takes ties away from zero and XLA takes them to even, so that neither is a mean error where there are ties, and
both are one where there are none. Elements that were equal are rounded alike, and count once for a mean of chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from opscope.harness.verdict.rounding import smallest_normal

MANY = 1 << 16
"""Elements from which a full sort costs."""
NEAR = 2.0**-20
"""Distance, relative, from the middle of two numbers up to which a float32 sum may lie on either side of it."""


@dataclass(frozen=True)
class Unrounded:
    """Of each element, flat: whether it lay in the middle of two numbers, and how many elements are its equals."""

    ties: np.ndarray | None
    """None if none did."""
    repeats: np.ndarray | int
    offset: np.ndarray | None = None
    """By how much the golden is short of what the stored operands give, stored too, flat: an error that no mean is made
    of. None if operands are taken as they are."""
    values: np.ndarray | None = None
    """What they were, where equal ones are not counted yet."""

    @classmethod
    def of(cls, wide: np.ndarray, dtype: np.dtype, offset: np.ndarray | None = None) -> Self:
        """By the values before they were rounded to `dtype`."""
        flat = np.ravel(wide).astype(np.float64)
        bits = _fraction_bits(dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            mantissa, _ = np.frexp(flat)  # in [0.5, 1): its numbers are 2^-(bits + 1) apart
            place = np.abs(mantissa) * 2.0 ** (bits + 1)
            ties = np.abs(place - np.floor(place) - 0.5) <= NEAR * place
            ties &= np.abs(flat) >= smallest_normal(dtype)
        return cls(ties, 1, offset, flat)

    @classmethod
    def without_ties(cls, golden: np.ndarray) -> Self:
        """By what is rounded to so many bits that a tie is too rare for a mean."""
        return cls(None, 1, values=np.ravel(golden))

    def counted(self) -> Self:
        """The same with equal elements counted: it takes a sort, and a mean may be larger by chance, never less."""
        return self if self.values is None else replace(self, repeats=_repeats(self.values), values=None)


def different(values: np.ndarray, least: int) -> bool:
    """Whether there are so many different values at the least, which few of them show most often."""
    return any(np.unique(some).size >= least for some in (np.ravel(values)[: 64 * least], values))


def _repeats(flat: np.ndarray) -> np.ndarray:
    """How many elements equal each; of many where fewer than a quarter repeat another, 1 of up to three that are equal,
    as random numbers are by chance, whose mean that hardly changes."""
    ordered = np.sort(flat)
    again = ordered[1:] == ordered[:-1]
    if flat.size < MANY or 4 * np.count_nonzero(again) > flat.size:
        _, places, counts = np.unique(flat, return_inverse=True, return_counts=True)
        return counts[np.ravel(places)]
    counts = np.ones(flat.size, np.int64)
    values, more = np.unique(ordered[3:][again[2:] & again[1:-1] & again[:-2]], return_counts=True)
    if values.size:
        at = np.minimum(np.searchsorted(values, flat), values.size - 1)
        counts[values[at] == flat] = (more[at] + 3)[values[at] == flat]
    return counts


def _fraction_bits(dtype: np.dtype) -> int:
    """Fraction bits of a float type."""
    one = np.ones((), dtype)
    return round(-np.log2(float(np.nextafter(one, one + one)) - 1.0))
