"""Steps of a series: those that a person sees, and no cheaper cut by exhaustion."""

from __future__ import annotations

from itertools import combinations, pairwise
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.base.tests.unhurried import UNHURRIED
from opscope.reports.compare.change_points import LEAST, PRICE, _noise, pieces

FLAT = [20.1, 19.8, 20.3, 20.0, 19.9, 20.2, 20.0]


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (FLAT, [20.0]),
        ([*FLAT, 40.0], [20.05]),  # one slow run
        ([*FLAT[:3], 60.0, *FLAT[3:]], [20.05]),
        ([*FLAT, 40.0, 40.5], [20.0, 40.25]),
        ([*FLAT, 15.0, 15.2, 14.9], [20.0, 15.0]),
        ([*FLAT, 30.0, 30.1, *FLAT], [20.0, 30.05, 20.0]),
        ([5.0, 5.0, 5.0, 5.0, 5.0], [5.0]),
        ([1.0, 9.0, 9.0], [9.0]),
        ([], []),
    ],
)
def test_levels(values: list[float], levels: list[float]) -> None:
    result = pieces(values)
    assert [piece.level for piece in result] == pytest.approx(levels)
    assert [place for piece in result for place in range(piece.start, piece.stop)] == list(range(len(values)))


@settings(UNHURRIED, max_examples=60)
@given(st.lists(st.floats(1, 100), min_size=5, max_size=9))
def test_no_other_cut_is_cheaper(values: list[float]) -> None:
    def cost(cuts: tuple[int, ...]) -> float:
        bounds = [0, *cuts, len(values)]
        parts = [values[i:j] for i, j in pairwise(bounds)]
        if any(len(part) < LEAST for part in parts):
            return float("inf")
        return sum(abs(v - median(part)) for part in parts for v in part) + PRICE * _noise(values) * len(cuts)

    places = range(1, len(values))
    best = min(cost(cuts) for count in range(len(values)) for cuts in combinations(places, count))
    assert cost(tuple(piece.start for piece in pieces(values)[1:])) == pytest.approx(best)


def test_the_noise_is_the_median_step_or_a_hundredth_of_the_level() -> None:
    assert _noise([1.0, 2.0, 4.0, 7.0]) == 2.0
    assert _noise([100.0, 100.0, 100.0, 101.0]) == 1.0
    assert _noise([-100.0, -100.0, -100.0]) == 1.0
    assert _noise([0.0, 0.0, 0.0]) == 1e-9


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        # The noise is 1: a cut has to save more than 6.
        ([100.0] * 5 + [103.0] * 2, [(0, 7)]),
        ([100.0] * 5 + [103.5] * 2, [(0, 5), (5, 7)]),
        # Two values are the fewest of a level, and five those of a series.
        ([100.0] * 4 + [200.0], [(0, 5)]),
        ([100.0] * 3 + [200.0] * 2, [(0, 3), (3, 5)]),
        ([100.0] * 2 + [200.0] * 3, [(0, 2), (2, 5)]),
        ([100.0] * 2 + [200.0] * 2, [(0, 4)]),
        ([100.0] * 2 + [200.0] * 2 + [300.0] * 2, [(0, 2), (2, 4), (4, 6)]),
    ],
)
def test_where_a_level_begins(values: list[float], bounds: list[tuple[int, int]]) -> None:
    assert [(piece.start, piece.stop) for piece in pieces(values)] == bounds
    assert [piece.level for piece in pieces(values)] == [median(values[start:stop]) for start, stop in bounds]
