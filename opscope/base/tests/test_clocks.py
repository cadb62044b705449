"""Clocks that nobody sets: time in which the machine stood still is in no limit, and no duration is negative."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest

from opscope.base import clocks
from opscope.base.children.ending import Deadline


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the machine, which a test sets."""
    at = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    monkeypatch.setattr(clocks, "_looked", (at[0], 0.0))
    return at


def test_a_gap_between_two_looks_counts_once_for_all_limits(at: list[float]) -> None:
    short, long = Deadline(10), Deadline(60)
    at[0] += 1.5
    assert (short.left(), long.left()) == (8.5, 58.5)
    at[0] += 126
    assert (long.left(), short.left()) == (56.5, 6.5), "so much of the gap as any look may be late by"
    for _ in range(20):
        at[0] += 0.5
        short.left()
    assert (short.left(), long.left()) == (0.0, 46.5)
    assert Deadline(None).left() == float("inf")


def test_a_process_whose_looks_are_all_late_reaches_its_limit_too(at: list[float]) -> None:
    deadline, looks = Deadline(10), 0
    while deadline.left():
        at[0] += 7
        looks += 1
    assert looks == 5


def test_a_clock_that_is_set_back_makes_no_duration_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    class Set(datetime):
        @classmethod
        def now(cls, tz=None):  # type: ignore[no-untyped-def]
            return datetime.now(tz) - timedelta(days=1)

    before = clocks.now()
    monkeypatch.setattr(clocks, "datetime", Set)
    assert timedelta(0) <= clocks.now() - before < timedelta(hours=1)
