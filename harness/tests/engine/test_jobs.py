"""Jobs side by side: order, how many at once, errors, memory, and that no child outlives them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from opscope.base.children.call import call
from opscope.harness.engine import jobs as module
from opscope.harness.engine.jobs import Job, Kind, side_by_side
from opscope.harness.prepare.turn import Stopped, Turn


def walk(
    work: Callable[[Turn], Any], needs: tuple[int, ...] = (), elsewhere: bool = False, model: str = "m"
) -> Job[Any]:
    """A job of a model."""
    return Job(Kind.WALK, model, work, needs, elsewhere)


def waiting_models(events: list[dict[str, Any]]) -> list[str]:
    """The models whose jobs were postponed, of all that was reported."""
    return [event["model"] for event in events if event.get("stage") == "waiting for memory"]


def never(event: Any) -> None:
    """Hears nothing, or a job was stopped."""
    pytest.fail(str(event))


def waits_for(turn: Turn, is_true: Callable[[], object], seconds: float = 30.0) -> None:
    """Waits as a job does that has a child."""
    until = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < until, "nothing happened"
        turn.check()
        time.sleep(0.001)


def exists(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_are_in_order_and_no_more_jobs_than_asked_for_are_under_way() -> None:
    under_way, most, threads = set[int](), list[int](), set[int]()
    heard: list[tuple[int, int]] = []

    def job(number: int, turn: Turn) -> int:
        under_way.add(number)
        most.append(len(under_way))
        if number == 0:
            waits_for(turn, lambda: len(most) >= 3)  # of the first two jobs, this one ends last
        threads.add(threading.get_ident())
        turn.report(number)
        under_way.remove(number)
        return number * number

    results = side_by_side(
        [walk(partial(job, number)) for number in range(6)],
        2,
        lambda event: heard.append((event, threading.get_ident())),
    )
    assert results == [0, 1, 4, 9, 16, 25]
    assert max(most) == 2
    assert sorted(number for number, _ in heard) == list(range(6))
    assert {thread for _, thread in heard} == {threading.get_ident()}
    assert threading.get_ident() not in threads


def test_one_at_a_time_needs_no_thread() -> None:
    here = threading.get_ident()
    assert side_by_side([walk(lambda turn: threading.get_ident())] * 3, 1, print) == [here] * 3
    assert side_by_side([walk(lambda turn: threading.get_ident())], 4, print) == [here]


@pytest.mark.parametrize("whose", ["job", "listener"])
def test_an_error_ends_the_other_jobs_and_their_children(whose: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"  # where the child writes its number
    ended: list[str] = []

    def long(turn: Turn) -> None:
        try:
            call("opscope.base.tests.child_functions:hang", {"mark": str(mark)}, watch=turn.check)
        except Stopped:
            ended.append("stopped")
            raise

    def short(turn: Turn) -> None:
        waits_for(turn, lambda: mark.exists() and mark.read_text())
        if whose == "job":
            raise ValueError("no")
        turn.report("no")

    def listen(event: str) -> None:
        raise ValueError(event)

    with pytest.raises(ValueError, match="no"):
        side_by_side([walk(long), walk(short)], 2, listen)
    assert ended == ["stopped"]
    pid = int(mark.read_text())
    waits_for(Turn(print), lambda: not exists(pid))  # its parent has still to wait for it
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("side-by-side")]


def test_the_youngest_job_waits_where_all_together_hold_too_much() -> None:
    begun: list[int] = []
    events: list[dict[str, Any]] = []

    def first(turn: Turn) -> str:
        begun.append(0)
        waits_for(turn, lambda: events)
        return "first"

    def second(turn: Turn) -> str:
        begun.append(1)
        if not events:
            waits_for(turn, lambda: False)
        return "second"

    assert side_by_side([walk(first), walk(second, model="n")], 2, events.append, memory=1) == ["first", "second"]
    assert waiting_models(events) == ["n"]
    assert begun.count(0) == 1, "the older job goes on"
    assert begun.count(1) == 2


def test_no_job_waits_where_what_they_hold_is_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(module, "exact_resident", lambda pid: looked.append(pid) or 0)
    jobs = [walk(lambda turn: waits_for(turn, lambda: looked))] * 2
    side_by_side(jobs, 2, never, memory=1)


def test_a_job_begins_once_what_it_needs_has_ended_and_before_later_ones() -> None:
    begun: list[str] = []
    slow_may_end = threading.Event()

    def job(name: str, turn: Turn) -> str:
        begun.append(name)
        if name == "split slow":
            waits_for(turn, slow_may_end.is_set)
        if name == "walk b":
            slow_may_end.set()
        return name

    names = ["split slow", "split a", "split b", "walk slow", "walk a", "walk b"]
    jobs = [walk(partial(job, name), needs=(number - 3,) if number > 2 else ()) for number, name in enumerate(names)]
    assert side_by_side(jobs, 2, print) == names
    assert begun == ["split slow", "split a", "split b", "walk a", "walk b", "walk slow"]


def test_jobs_elsewhere_take_no_place_of_those_here_and_need_no_memory_of_this_machine() -> None:
    under_way: set[int] = set()
    all_there = threading.Barrier(4, timeout=30)

    def away(number: int, turn: Turn) -> None:
        under_way.add(number)
        all_there.wait()

    def here(turn: Turn) -> None:
        all_there.wait()

    jobs = [*(walk(partial(away, number), elsewhere=True) for number in range(3)), walk(here)]
    side_by_side(jobs, 1, never, memory=1)
    assert under_way == {0, 1, 2}


def test_what_needs_a_postponed_job_waits_for_its_second_try() -> None:
    events: list[dict[str, Any]] = []
    begun: list[int] = []

    def first(turn: Turn) -> None:
        waits_for(turn, lambda: events)

    def second(turn: Turn) -> None:
        if not events:
            waits_for(turn, lambda: False)
        begun.append(1)

    jobs = [walk(first), walk(second, model="n"), walk(lambda turn: begun.append(2), needs=(1,))]
    side_by_side(jobs, 2, events.append, memory=1)
    assert (waiting_models(events), begun) == (["n"], [1, 2])
