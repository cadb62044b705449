"""Finds change points in a noisy series: where a timing settled on another level. One slow run is not one.

The series is cut into pieces of constant level so that the sum of distances from each piece's median, plus a price per
cut, is smallest; the price follows from the noise between neighbours. A piece has at least `LEAST` values: a step
counts once a second run has confirmed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

LEAST = 2
"""Fewest runs on one level."""

NEEDED = 5
"""Fewest runs of a series in which change points are looked for."""

PRICE = 6.0
"""What a cut costs, in units of the noise between neighbouring runs."""


@dataclass(frozen=True)
class Piece:
    """Runs `start` to `stop` (exclusive) on one level."""

    start: int
    stop: int
    level: float


def pieces(values: Sequence[float]) -> list[Piece]:
    """Cuts the series into pieces of constant level, in order; a series that is too short is one piece."""
    count = len(values)
    if count < NEEDED:
        return [Piece(0, count, median(values))] if count else []
    price = PRICE * _noise(values)
    best = {0: -price}  # the first piece needs no cut
    cut: dict[int, int] = {}
    for stop, _ in enumerate(values, 1):
        costs = {start: best[start] + price + _distance(values[start:stop]) for start in best if stop - start >= LEAST}
        if costs:
            cut[stop] = min(costs, key=costs.__getitem__)
            best[stop] = costs[cut[stop]]
    reversed_pieces: list[Piece] = []
    stop = count
    while stop:
        start = cut[stop]
        reversed_pieces.append(Piece(start, stop, median(values[start:stop])))
        stop = start
    return reversed_pieces[::-1]


def _distance(part: Sequence[float]) -> float:
    """The sum of distances from the median."""
    level = median(part)
    return sum(abs(value - level) for value in part)


def _noise(values: Sequence[float]) -> float:
    """Median difference between neighbours; a step is one of many differences and hardly moves it."""
    steps = sorted(abs(late - early) for early, late in pairwise(values))
    return max(median(steps), 0.01 * abs(median(values)), 1e-9)
