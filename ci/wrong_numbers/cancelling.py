"""Sums whose terms cancel, seeded: f32 and bf16 `reduce` add on the simulated card, whole and without their last terms.

10^2 to 10^7 terms, ranks 1 to 5, to scalars, rows and columns, in six distributions whose sums are small beside them.
What the card computes is honest, however large its error is beside the small sum; what lacks terms is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ci.wrong_numbers.ops import Case, reduction, run
from opscope.harness.record.element_types import numpy_dtype
from opscope.harness.record.records import ResultCheck

Draw = Callable[[np.random.Generator, int, int], np.ndarray]
"""Draws so many rows of so many terms, float64."""

LARGEST = 1_000_000
"""Elements of an operand whose sums have fewer terms."""
SHOWS = 8.0
"""A loss of so many times 2^-9 (bf16: 2^-8) of the root of the sum of squared terms shows: the most that a term is cut
by. It deviates by half of that, so that z is above 16, and its limits are 3.5 to 6.7. To it comes what float32 rounds
where equal terms are added up alike, from 10^6 of them on."""


def _normal(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    return rng.standard_normal((rows, terms))


def _centred(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """Minus their mean."""
    x = rng.standard_normal((rows, terms)) + 3
    return x - x.mean(axis=1, keepdims=True)


def _pairs(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """Each term and its negative, somewhere else."""
    half = rng.standard_normal((rows, terms // 2))
    x = np.concatenate([half, -half, np.zeros((rows, terms % 2))], axis=1)
    return x[:, rng.permutation(terms)]


def _halves(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """One half far above zero, the other as far below it."""
    x = rng.uniform(1, 3, (rows, terms))
    x[:, terms // 2 :] *= -1
    return x


def _equal(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """One size, both signs: all terms are cut alike."""
    return rng.uniform(1, 2) * rng.choice((-1.0, 1.0), (rows, terms))


def _wide(rng: np.random.Generator, rows: int, terms: int) -> np.ndarray:
    """Of very different sizes."""
    return rng.standard_normal((rows, terms)) * np.exp(2 * rng.standard_normal((rows, terms)))


DRAWS: dict[str, Draw] = {
    "normal": _normal,
    "centred": _centred,
    "pairs": _pairs,
    "halves": _halves,
    "equal": _equal,
    "wide": _wide,
}


@dataclass(frozen=True)
class Cancelling:
    """One sum: its operand's shape, the dims that are summed, and how its terms are drawn."""

    seed: int
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    element: str
    draw: str

    @property
    def terms(self) -> int:
        """How many terms each element has."""
        return math.prod(self.shape[dim] for dim in self.dims)

    @property
    def name(self) -> str:
        """For people, such as `3: equal 128x10x32x4 over (0, 1) f32`."""
        return f"{self.seed}: {self.draw} {'x'.join(map(str, self.shape))} over {self.dims} {self.element}"

    def case(self) -> Case:
        """The op with its operand."""
        return reduction("add", self.shape, self.dims, self.element, lambda rng: [self._operand(rng)])

    def _operand(self, rng: np.random.Generator) -> np.ndarray:
        free = [dim for dim in range(len(self.shape)) if dim not in self.dims]
        order = [*free, *self.dims]
        x = DRAWS[self.draw](rng, math.prod(self.shape[dim] for dim in free), self.terms)
        x = x.astype(numpy_dtype(self.element)).reshape([self.shape[dim] for dim in order])
        return np.ascontiguousarray(x.transpose(np.argsort(order)))


def drawn(seed: int, most: int = 10_000_000) -> Cancelling:
    """The sum of a seed, of at most so many terms."""
    rng = np.random.default_rng([36, seed])
    terms = int(10 ** rng.uniform(2, math.log10(most)))
    rank = int(rng.integers(1, 6))
    summed = int(rng.integers(1, rank + 1))
    sizes = _split(rng, terms, summed)
    room = LARGEST // max(1, math.prod(sizes))
    free = _split(rng, int(10 ** rng.uniform(0, math.log10(max(1, min(room, 1000))))), rank - summed)
    dims = sorted(int(dim) for dim in rng.choice(rank, summed, replace=False))
    inner, outer = iter(sizes), iter(free)
    shape = tuple(next(inner) if dim in dims else next(outer) for dim in range(rank))
    element = "f32" if rng.random() < 0.7 else "bf16"
    return Cancelling(seed, shape, tuple(dims), element, str(rng.choice(sorted(DRAWS))))


def _split(rng: np.random.Generator, size: int, parts: int) -> list[int]:
    """So many factors whose product is about `size`."""
    if not parts:
        return []
    shares = rng.dirichlet(np.full(parts, 2.0))
    return [math.ceil(size**share) for share in shares]


def judged(cancelling: Cancelling) -> tuple[str, bool]:
    """What is wrong with the verdict on a sum as the card computes it, or on one that lacks terms, empty if nothing is;
    and whether the lost terms are more than rounding."""
    ran = run(cancelling.case(), cancelling.seed, "card")
    if ran is None:  # dims of size 1 behind a long one: its tiles of 32x32 are more than the card's memory
        return "", False
    assert ran.on_card
    wrong, shows = lacking(ran.inputs[0], ran.got, cancelling)
    return fault(cancelling, ran.verdict(ran.got), lambda: ran.verdict(wrong) if shows else None), shows


def fault(cancelling: Cancelling, honest: ResultCheck, lacking_terms: Callable[[], ResultCheck | None]) -> str:
    """What is wrong with two verdicts on a sum, in words; None is one that was not asked for."""
    if not honest.passed:
        return f"{cancelling.name}: refused: {honest.reason}"
    check = lacking_terms()
    return f"{cancelling.name}: passes without some terms" if check is not None and check.passed else ""


def lacking(operand: np.ndarray, got: np.ndarray, cancelling: Cancelling) -> tuple[np.ndarray, bool]:
    """Sums without their last terms, of which as few are lost as make more than any rounding of the first sum; and
    whether they do so at all."""
    x = operand.astype(np.float64)
    free = [dim for dim in range(x.ndim) if dim not in cancelling.dims]
    rows = x.transpose(*free, *cancelling.dims).reshape(-1, cancelling.terms)
    unit = (2.0**-9 if cancelling.element == "f32" else 2.0**-8) + cancelling.terms**0.75 * 2.0**-24
    size = math.sqrt(np.square(rows[0]).sum()) + abs(rows[0].sum())
    added = 2.0**-23 * math.sqrt(np.square(np.cumsum(rows[0])).sum())  # what is rounded in the terms' order
    shows = np.abs(np.cumsum(rows[0, ::-1])) > SHOWS * (unit * size + added)
    lost = rows[:, rows.shape[1] - 1 - int(np.argmax(shows)) :].sum(axis=1)
    wrong = got.astype(np.float64) - lost.reshape(got.shape)
    return wrong.astype(got.dtype), bool(shows.any())
