"""Forks that work at one thing: what they say arrives, and what ends one of them ends all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscope.base.children.ending import Ending, of_return_code
from opscope.base.children.forks import ForkDied, RaisedInFork, end_as, in_forks

Send = Callable[[Any], None]


def nothing(number: int, message: Any) -> None:
    raise AssertionError(message)


def test_each_message_arrives_whole_with_the_forks_number() -> None:
    got: list[tuple[int, Any]] = []

    def work(number: int, send: Send) -> None:
        send({"long": "x" * 200_000})
        send({"last": number * 10})

    in_forks(2, work, lambda number, message: got.append((number, message)))
    assert sorted((n, m["last"]) for n, m in got if "last" in m) == [(0, 0), (1, 10)]
    assert [len(m["long"]) for _, m in got if "long" in m] == [200_000] * 2


def test_files_are_closed_in_a_fork_but_those_that_it_keeps(tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w") as kept, (tmp_path / "other").open("w") as other:
        got: list[Any] = []

        def work(number: int, send: Send) -> None:
            send({"open": sorted(int(name) for name in os.listdir("/proc/self/fd"))})  # noqa: PTH208

        in_forks(1, work, lambda number, message: got.append(message), keep=(kept.fileno(),))
        assert kept.fileno() in got[0]["open"]
        assert other.fileno() not in got[0]["open"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (OSError(28, "No space left on device"), OSError, r"\[Errno 28\] No space left on device"),
        (ValueError("wrong\nmore"), RaisedInFork, "^ValueError: wrong$"),
    ],
)
def test_what_one_raises_is_raised_here(error: Exception, kind: type[Exception], text: str) -> None:
    """That the others end is the next test's."""

    def work(number: int, send: Send) -> None:
        raise error

    with pytest.raises(kind, match=text):
        in_forks(1, work, nothing)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(of_return_code(-signal.SIGKILL), id="signal"),
        pytest.param(of_return_code(7), id="exit", marks=pytest.mark.slow),  # quick: [signal]; the others end the same
    ],
)
def test_a_fork_that_dies_ends_the_others_and_is_named(ending: Ending) -> None:
    pids: list[int] = []

    def work(number: int, send: Send) -> None:
        send({"pid": os.getpid()})
        if number:
            end_as(ending)
        time.sleep(60)

    since = time.monotonic()
    with pytest.raises(ForkDied) as caught:
        in_forks(2, work, lambda number, message: pids.append(message["pid"]))
    assert (caught.value.number, caught.value.ending) == (1, ending)
    assert time.monotonic() - since < 40
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_once_all_is_done_nobody_waits_for_those_that_are_left() -> None:
    def work(number: int, send: Send) -> None:
        if number:
            time.sleep(60)
        send({"done": number})

    since = time.monotonic()
    in_forks(2, work, lambda number, message: "done" in message)
    assert time.monotonic() - since < 40
