"""The engine with lanes that are lists: order, how many at once, waiting for goldens, errors, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.engine.climber import Climber
from opscope.harness.engine.engine import Begun, Done, OpJob
from opscope.harness.engine.local import LocalEngine
from opscope.harness.prepare.turn import Stopped
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpRow
from opscope.harness.tests.cache.test_growing_export import filled, growing, row


class FakeClimbers:
    """Climbers of any number of lanes. An op of a `kept` number needs no lane; `work` is done for the others."""

    def __init__(self, work: Callable[[int], object] = lambda number: None, kept: frozenset[int] = frozenset()) -> None:
        self.work, self.kept = work, kept
        self.lanes: dict[int, list[str]] = {}
        self.busy, self.most = 0, 0
        self.lock = threading.Lock()

    def __call__(self, lane: int, check: Callable[[], None], on_lane: Callable[[], None]) -> Mapping[str, Climber]:
        did = self.lanes[lane] = []

        def climb(row: OpRow) -> tuple[Any, Any]:
            number = int(row.op_id, 16)
            if number not in self.kept:
                on_lane()
                with self.lock:
                    self.busy += 1
                    self.most = max(self.most, self.busy)
                try:
                    self.work(number)
                    while self.work is forever:
                        check()
                        time.sleep(0.001)
                finally:
                    with self.lock:
                        self.busy -= 1
            did.append(str(number))
            return number, "verdict"

        climber = SimpleNamespace(
            climb=climb,
            needs_lane=lambda row: int(row.op_id, 16) not in self.kept,
            start=lambda: did.append("start"),
            rest=lambda: did.append("rest"),
            close=lambda: did.append("close"),
            waited=0.0,
        )
        return {"": cast(Climber, climber)}


def forever(number: int) -> None:
    """An op that ends when the engine does."""


def jobs(*numbers: int, model: str = "m") -> list[OpJob]:
    return [OpJob(row(number, model)) for number in numbers]


def ran(engine: LocalEngine, work: list[OpJob]) -> list[int]:
    """The numbers of the ops, as they end."""
    return [cast(int, event.test) for event in engine.records(work) if isinstance(event, Done)]


def test_one_lane_runs_ops_in_their_order_and_says_when_they_begin() -> None:
    climbers = FakeClimbers(kept=frozenset({1}))
    engine = LocalEngine(climbers)
    engine.start(jobs(2, 1, 0))
    events = list(engine.records(jobs(2, 1, 0)))
    assert [type(event) for event in events] == [Begun, Done, Done, Begun, Done], "a kept verdict takes no time"
    engine.close()
    assert climbers.lanes == {0: ["start", "2", "1", "0", "close"]}


def test_as_many_ops_are_under_way_as_there_are_lanes() -> None:
    together = threading.Barrier(3)
    climbers = FakeClimbers(lambda number: together.wait(60))
    engine = LocalEngine(climbers, 3)
    assert sorted(ran(engine, jobs(*range(6)))) == list(range(6))
    engine.close()
    assert (climbers.most, set(climbers.lanes)) == (3, {0, 1, 2})


def test_where_all_verdicts_are_kept_there_is_one_lane_which_is_not_started() -> None:
    climbers = FakeClimbers(kept=frozenset(range(20)))
    engine = LocalEngine(climbers, 16)
    engine.start(jobs(*range(20)))
    assert ran(engine, jobs(*range(20))) == list(range(20))
    engine.close()
    assert climbers.lanes == {0: [*map(str, range(20)), "close"]}


def test_lanes_start_as_there_is_work_for_them() -> None:
    climbers = FakeClimbers(kept=frozenset(range(2, 20)))
    engine = LocalEngine(climbers, 16)
    engine.start(jobs(*range(20)))
    assert sorted(ran(engine, jobs(*range(20)))) == list(range(20))
    engine.close()
    assert [lane for lane, did in sorted(climbers.lanes.items()) if "start" in did] == [0, 1], "two ops need one"


def test_an_op_whose_golden_comes_late_holds_up_none(tmp_path: Path) -> None:
    rows = [row(number, "m") for number in (4, 3, 1)]
    announcer, export = growing(filled(tmp_path, *rows), rows[2], rows[1])
    news = threading.Condition()
    export._changed = lambda: _notify(news)
    climbers = FakeClimbers()
    engine = LocalEngine(climbers, 1, {"m": export}, news)
    timer = threading.Timer(0.1, lambda: announcer.op(tmp_path, rows[0]))
    timer.start()
    assert ran(engine, jobs(4, 3, 1)) == [3, 1, 4]
    engine.close()
    timer.join()
    assert engine.waited > 0.05
    assert "rest" in climbers.lanes[0], "whoever waits needs no slot"


def _notify(news: threading.Condition) -> None:
    with news:
        news.notify_all()


def test_once_the_time_is_over_nobody_waits_for_goldens(tmp_path: Path) -> None:
    end = time.monotonic() + 0.05
    engine = LocalEngine(FakeClimbers(), 2, {"m": GrowingExport()}, None, lambda: time.monotonic() < end)
    assert sorted(ran(engine, jobs(4, 2, 3))) == [2, 3, 4]
    engine.close()


def test_an_error_of_one_lane_ends_the_run_and_the_other_lanes() -> None:
    met = threading.Event()

    def work(number: int) -> None:
        if number == 1:
            raise InputError("--backend x", "a device", "none")
        assert met.wait(60)

    climbers = FakeClimbers(work)
    engine = LocalEngine(climbers, 2)
    with pytest.raises(InputError, match="expected a device, got none"):
        ran(engine, jobs(0, 1, 2, 3))
    met.set()
    engine.close()
    assert all(did[-1] == "close" for did in climbers.lanes.values())


def test_closing_ends_what_is_under_way_at_once_and_no_op_begins_after_it() -> None:
    climbers = FakeClimbers(forever)
    engine = LocalEngine(climbers, 2)
    events = engine.records(jobs(0, 1, 2))
    assert [type(next(events)), type(next(events))] == [Begun, Begun]
    since = time.monotonic()
    engine.close()
    assert time.monotonic() - since < 30
    assert all(did == ["close"] for did in climbers.lanes.values()), "none has a record"
    engine.close()


def test_what_a_lane_meets_when_it_ends_is_raised_in_the_end() -> None:
    climbers = FakeClimbers()

    def made(lane: int, check: Any, on_lane: Any) -> Any:
        climber = climbers(lane, check, on_lane)[""]

        def close() -> None:
            raise OSError("no room")

        climber.close = close  # type: ignore[method-assign]
        return {"": climber}

    engine = LocalEngine(made)
    assert ran(engine, jobs(1)) == [1]
    with pytest.raises(OSError, match="no room"):
        engine.close()


def test_ops_of_several_backends_run_in_the_lane_that_takes_them() -> None:
    taken: list[tuple[str, int]] = []

    def made(lane: int, check: Any, on_lane: Any) -> Any:
        def climber(tag: str) -> Any:
            def climb(row: OpRow) -> tuple[Any, Any]:
                taken.append((tag, int(row.op_id, 16)))
                return 0, "verdict"

            return SimpleNamespace(climb=climb, needs_lane=lambda row: True, close=lambda: None, waited=0.0)

        return {tag: climber(tag) for tag in ("a", "b")}

    engine = LocalEngine(made)
    list(engine.records([OpJob(row(number, "m"), tag) for number in (1, 2) for tag in ("a", "b")]))
    engine.close()
    assert taken == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_a_stopped_lane_raises_nothing() -> None:
    def work(number: int) -> None:
        raise Stopped

    engine = LocalEngine(FakeClimbers(work))
    events = engine.records(jobs(0))
    assert isinstance(next(events), Begun)
    engine.close()


def test_in_step_no_op_begins_before_the_last_record_was_taken() -> None:
    begun: list[int] = []
    engine = LocalEngine(FakeClimbers(begun.append), in_step=True)
    events = engine.records(jobs(1, 2, 3))
    assert isinstance(next(events), Begun)
    assert isinstance(next(events), Done)
    time.sleep(0.1)
    assert begun == [1], "who takes the record of the first may end the run by it"
    assert isinstance(next(events), Begun)
    engine.close()
