"""Jobs that are done before they are asked for: any order, few at once, errors where they belong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from opscope.base.jobs_ahead import JobsAhead


def jobs_of(names: str, begun: list[str], wait: threading.Event | None = None) -> JobsAhead[str]:
    def first_half(name: str) -> Callable[[], str]:
        begun.append(name)
        if name == "x":
            raise ValueError("refused")
        return lambda: ((wait is None or wait.wait(10)) and name.upper()) or "late"

    return JobsAhead(((name, partial(first_half, name)) for name in names), 1)


def test_jobs_are_taken_in_any_order_and_few_are_ahead() -> None:
    begun: list[str] = []
    jobs = jobs_of("abcdefghijk", begun)
    assert not begun
    assert jobs.take("a") == "A"
    assert begun == list("abcde"), "four for the one thread"
    assert jobs.take("d") == "D"
    assert begun == list("abcdefgh"), "b and c, which nobody wanted, hold up nothing"
    assert [jobs.take(name) for name in "bkc"] == ["B", "K", "C"]
    for absent in ("a", "z"):
        with pytest.raises(KeyError, match=absent):
            jobs.take(absent)
    jobs.close()


def test_an_error_of_either_half_is_raised_where_its_result_is_taken() -> None:
    begun: list[str] = []
    wait = threading.Event()
    jobs = jobs_of("axb", begun, wait)
    threading.Timer(0.2, wait.set).start()
    assert jobs.take("a") == "A", "it is waited for"
    with pytest.raises(ValueError, match="refused"):
        jobs.take("x")
    assert jobs.take("b") == "B"
    jobs.close()
