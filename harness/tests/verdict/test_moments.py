"""Sums over a result and its golden, chunk by chunk: PCC and spread by hand, and where NaN and infinity may stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.verdict.moments import TINY, Sums, gather, pcc_of
from opscope.harness.verdict.tolerance import TABLE

FLOAT32, HALF, EXACT = TABLE["Float32"], TABLE["Float16"], TABLE["exact"]
INF, NAN = np.inf, np.nan


def summed(golden: Sequence[float], got: Sequence[float], row=FLOAT32, step: int = 2) -> Sums:
    sums = Sums()
    for start in range(0, len(golden), step):
        chunk = slice(start, start + step)
        with np.errstate(invalid="ignore"):
            gather(sums, start, np.array(golden[chunk], np.float64), np.array(got[chunk], np.float64), row)
        if sums.reason:
            break
    return sums


@each("step", [1, 2, 8])
@each("offset", [0.0, 1000.0])
def test_correlation_and_spread_are_of_the_finite_values(step: int, offset: float) -> None:
    golden, got = [1, 2, INF, 4, NAN, 7, -INF], [1.5, 2, INF, 3, NAN, 9, -INF]
    moved = [[value + offset for value in values] for values in (golden, got)]
    sums = summed(*moved, replace(FLOAT32, relative_l2=1e-9), step=step)
    g, d = np.array([1, 2, 4, 7]) + offset, np.array([1.5, 2, 3, 9]) + offset
    assert (sums.count, sums.finite, sums.largest_error) == (7, 4, 2)
    assert (sums.golden_squares, sums.error_squares) == (float(g @ g), 0.25 + 1 + 4)
    pcc, spread = pcc_of(sums, replace(FLOAT32, relative_l2=1e-9))
    assert pcc == pytest.approx(np.corrcoef(g, d)[0, 1], rel=1e-6)
    assert spread == pytest.approx(np.std(g) / np.sqrt(np.mean(g**2)), rel=1e-6)


def test_infinite_values_leave_moments_around_zero_alone() -> None:
    g, d = np.array([1, -1, 5]), np.array([2, -1, 4])
    pcc, _ = pcc_of(summed([1, -1, INF, 5], [2, -1, INF, 4]), FLOAT32)
    assert pcc == pytest.approx(np.corrcoef(g, d)[0, 1])


def test_no_rounding_makes_a_correlation_more_than_whole() -> None:
    rng = np.random.default_rng(0)
    for factor in (1 / 3, -0.7):
        for golden in rng.standard_normal((200, 7)):
            pcc, _ = pcc_of(summed(golden, golden * factor, step=7), FLOAT32)
            assert pcc == pytest.approx(np.sign(factor))
            assert abs(pcc) <= 1


@each(
    ("golden", "got", "pcc", "spread"),
    [
        ([2], [2], None, 0),
        ([0, 0], [0, 1], None, 0),
        ([1, 3], [0, 5], 1, 1 / np.sqrt(5)),
        ([1, 3], [5, 0], -1, 1 / np.sqrt(5)),
        ([3, 3, 3], [1, 2, 3], None, 0),
        ([1, 3], [2, 2], None, 1 / np.sqrt(5)),
        ([0, 0, 0, 4], [0, 0, 0, 4], 1, np.sqrt(3) / 2),
    ],
)
def test_a_correlation_needs_two_values_that_vary(
    golden: list[float], got: list[float], pcc: float | None, spread: float
) -> None:
    measured = pcc_of(summed(golden, got), FLOAT32)
    assert measured == (None if pcc is None else pytest.approx(pcc), pytest.approx(spread))


def test_a_golden_that_varies_less_than_its_format_resolves_has_no_correlation() -> None:
    """Of 999 and 1001 the spread is a thousandth."""
    sums = summed([999, 1001], [999, 1001])
    for resolved, pcc in ((0.9e-3, 1), (1.1e-3, None)):
        measured = pcc_of(sums, replace(FLOAT32, relative_l2=resolved))
        assert measured == (None if pcc is None else pytest.approx(pcc), pytest.approx(1e-3, rel=1e-3))


def test_a_nearly_constant_side_has_no_correlation() -> None:
    """A deviation of 1 beside one of 1e6: their squares are in the ratio that rounding may make of a constant."""
    for small, pcc in ((1, None), (1.001, 1)):
        for sides in (([1e6, -1e6], [small, -small]), ([small, -small], [1e6, -1e6])):
            assert pcc_of(summed(*sides), FLOAT32)[0] == (None if pcc is None else pytest.approx(pcc))
    whole = summed([1, -1], [1, -1])  # its spread is 1
    assert pcc_of(whole, replace(FLOAT32, relative_l2=1.0)) == (None, 1.0)
    assert pcc_of(whole, replace(FLOAT32, relative_l2=0.999)) == (pytest.approx(1), 1.0)


@each(
    ("golden", "got", "said"),
    [
        ([1, 2, NAN], [1, 2, 3], "NaN or Inf: 3 instead of nan at element 2"),
        ([1, 2, 3, 4], [1, 2, 3, NAN], "NaN or Inf: nan instead of 4 at element 3"),
        ([INF, 1], [-INF, 1], "NaN or Inf: -inf instead of inf at element 0"),
        ([1, 70000], [1, INF], "NaN or Inf: inf instead of 70000 at element 1"),
        ([INF, -INF], [INF, -INF], ""),
    ],
)
def test_where_nan_and_infinity_disagree(golden: list[float], got: list[float], said: str) -> None:
    sums = summed(golden, got)
    assert (sums.reason, sums.saturated) == (said, 0)


def test_a_format_without_infinity_has_its_largest_number_in_place_of_it() -> None:
    sums = summed([INF, 1, -INF, 65504], [65504, 1, -65504, INF], HALF)
    assert (sums.reason, sums.saturated, sums.finite, sums.largest_error) == ("", 3, 1, 0)
    for golden, got in ((INF, 65503), (65503, INF), (INF, -65504), (INF, NAN)):
        assert summed([golden], [got], HALF).reason == f"NaN or Inf: {got:g} instead of {golden:g} at element 0"


def test_exact_values_are_counted_and_the_first_that_differs_is_named() -> None:
    sums = summed([1, 2, 3, 4, 5], [9, 2, 9, 9, 5], EXACT)
    assert (sums.unequal, sums.first_unequal) == (3, 0)
    assert summed([1, 2, 3, 4], [1, 2, 3, 9], EXACT).first_unequal == 3
    assert summed([1, 2], [1, 2], EXACT).first_unequal == -1
    assert summed([1, 2], [1, 9], FLOAT32).unequal == 0


def test_denormals_may_be_zero() -> None:
    sums = summed([TINY / 2, -TINY / 2, 0, TINY], [0, 0, 0, TINY], EXACT)
    assert (sums.flushed, sums.unequal) == (2, 0)
    assert summed([TINY], [0], EXACT).unequal == 1
    assert summed([0], [TINY / 2], EXACT).unequal == 1
