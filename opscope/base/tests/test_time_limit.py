"""What takes too long in this process ends, and timers of others go on."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time

import pytest

from opscope.base.time_limit import TimeIsUpError, expired, time_limit


def test_what_takes_too_long_ends() -> None:
    def sleep() -> None:
        while True:
            with contextlib.suppress(Exception):  # code that keeps every error
                time.sleep(60)

    began = time.monotonic()
    with pytest.raises(TimeIsUpError, match=r"no end within 0\.05 s"), time_limit(0.05):
        sleep()
    assert time.monotonic() - began < 30
    assert not expired()


def test_other_errors_and_results_pass() -> None:
    with pytest.raises(KeyError), time_limit(60):
        raise KeyError
    with time_limit(60):
        pass


def test_code_in_c_may_ask() -> None:
    connection = sqlite3.connect(":memory:")
    connection.set_progress_handler(expired, 1000)
    with pytest.raises(TimeIsUpError), time_limit(0.05):
        connection.execute("with recursive n(i) as (select 1 union all select i + 1 from n) select sum(i) from n")


def test_an_earlier_timer_goes_on() -> None:
    rung: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, _: rung.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with time_limit(60):
            pass
        time.sleep(0.05)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert rung == [signal.SIGALRM]
