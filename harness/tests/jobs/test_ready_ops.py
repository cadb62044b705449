"""An op whose golden comes late holds up none whose golden is there."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.harness.cache.growing_export import Announcer, GrowingExport
from opscope.harness.jobs.goldens import AwaitedGoldens
from opscope.harness.jobs.ready_ops import ReadyOps
from opscope.harness.record.records import OpRow
from opscope.harness.run.executors import ready_loop
from opscope.harness.run.items import OpItem
from opscope.harness.tests.cache.test_growing_export import filled, row


def numbers(ids: list[str]) -> list[int]:
    return [int(op_id, 16) for op_id in ids]


def test_an_op_is_ready_once_its_golden_is_announced_or_will_not_come(tmp_path: Path) -> None:
    paths = {model: tmp_path / f"{model}.jsonl" for model in "mno"}
    m, n, o = (Announcer(path) for path in paths.values())
    split = [row(1, "m"), row(2, "m"), row(3, "n", "m"), row(4, "n"), row(5, "o"), row(6, "whole"), row(7, "m", "n")]
    for announcer, path in zip((m, n, o), paths.values(), strict=True):
        announcer.begin(filled(path.with_suffix(""), *split))
    ops = ReadyOps({model: GrowingExport(path) for model, path in paths.items()}, split)
    assert numbers(ops.look()) == [6], "of a model that was complete"
    m.op(tmp_path / "m", row(2, "m"))
    m.op(tmp_path / "m", row(3, "m"))
    assert numbers(ops.look()) == [2], "the first of an op's models has its golden, as far as that is known"
    n.failed("killed")
    assert numbers(ops.look()) == [3, 4], "the golden of another model, or none"
    assert ops.look() == []
    m.cut_off("budget")
    assert numbers(ops.look()) == [1, 7]
    assert ops.waiting
    assert (numbers(ops.rest()), ops.waiting) == ([5], False)
    o.complete(tmp_path / "o")
    assert ops.look() == [], "each is ready once"


def items_of(rows: list[OpRow], ran: list[str]) -> list[Any]:
    """The tests of some ops, and one that is none, in the middle."""

    def protocol(item: Any, nextitem: Any) -> None:
        assert nextitem is not None
        ran.append(item.name)

    config = SimpleNamespace(hook=SimpleNamespace(pytest_runtest_protocol=protocol))
    items: list[Any] = []
    for each in rows:
        item = OpItem.__new__(OpItem)
        item.row, item.name, item.config = each, str(int(each.op_id, 16)), config
        items.append(item)
    return [*items[:2], SimpleNamespace(name="export", config=config), *items[2:]]


def session_of(items: list[Any]) -> Any:
    return SimpleNamespace(items=items, shouldfail=False, shouldstop=False, Failed=KeyError, Interrupted=ValueError)


def test_one_lane_takes_the_first_op_whose_golden_is_there(tmp_path: Path) -> None:
    rows = [row(number, "m") for number in (4, 3, 1)]
    announcer, folder = Announcer(tmp_path / "0.jsonl"), filled(tmp_path / "making", *rows)
    announcer.begin(folder)
    goldens = AwaitedGoldens({"m": str(tmp_path / "0.jsonl")}, {"m": ""}, {"m": ""}, os.getpid())
    announcer.op(folder, rows[2])
    announcer.op(folder, rows[1])
    ran: list[str] = []
    timer = threading.Timer(0.1, lambda: announcer.op(folder, rows[0]))
    timer.start()
    ready_loop.run(session_of(items_of(rows, ran)), goldens, lambda: True)
    assert ran == ["3", "export", "1", "4"]
    assert goldens.waited > 0.05
    timer.join()


def test_one_lane_stops_and_waits_for_nothing_once_its_time_is_over(tmp_path: Path) -> None:
    rows = [row(number, "m") for number in (4, 2, 3)]
    Announcer(tmp_path / "0.jsonl").begin(filled(tmp_path / "making", *rows))
    goldens = AwaitedGoldens({"m": str(tmp_path / "0.jsonl")}, {"m": ""}, {"m": ""}, os.getpid())
    ran: list[str] = []
    ready_loop.run(session_of(items_of(rows, ran)), goldens, lambda: len(ran) < 1)
    assert ran == ["export", "4", "2", "3"]
    session = session_of(items_of(rows, ran))
    session.shouldfail = "one failed"
    with pytest.raises(KeyError, match="one failed"):
        ready_loop.run(session, goldens, lambda: True)
    assert ran[4:] == ["export"]
