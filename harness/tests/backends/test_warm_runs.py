"""Warm runs: how many there are, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opscope.harness.backends import warm_runs

MS = 1_000_000


def measured(monkeypatch: pytest.MonkeyPatch, *lasting: int) -> tuple[float, float | None, int]:
    """The median, the spread and the number of runs, where runs last so many nanoseconds each."""
    moments: Iterator[int] = iter([moment for each in lasting for moment in (0, each)])
    monkeypatch.setattr(warm_runs.time, "perf_counter_ns", lambda: next(moments))
    runs: list[int] = []
    median, spread = warm_runs.timed(lambda: runs.append(1))
    return median, spread, len(runs)


def test_five_short_runs_and_the_spread_of_the_three_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, 50, 12, 10, 11, 9) == (11, 2, 5)


def test_long_runs_are_few_and_take_no_more_than_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, 20 * MS, 22 * MS) == (21 * MS, 2 * MS, 2)
    assert measured(monkeypatch, 26 * MS) == (26 * MS, None, 1)
    assert measured(monkeypatch, 900 * MS) == (900 * MS, None, 1)


def test_exceptions_of_a_run_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        warm_runs.timed(lambda: 1 // 0)
