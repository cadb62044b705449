"""Which worker of xdist gets which op while goldens are made: only what can run, nothing twice, and all in the end."""

from __future__ import annotations

import queue
import random
import time
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opscope.harness.cache.growing_export import Announcer
from opscope.harness.run.executors.ready_scheduling import LOOK, ReadyScheduling
from opscope.harness.run.plan import RunPlan, nodeid
from opscope.harness.run.process_plan import growing
from opscope.harness.tests.cache.test_growing_export import filled, header, row
from opscope.harness.tests.run.test_plan import orders_of_nothing


class Node:
    """A worker: what it was handed."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.tests: list[int] = []
        self.shutting_down = self.dead = False

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.dead:
            raise OSError("cannot send (already closed?)")
        assert not self.shutting_down
        self.tests.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True


class Sweep:
    """A run of some ops, and xdist's side of it."""

    def __init__(self, folder: Path, ops: int, workers: int, seed: int = 0) -> None:
        self.draw = random.Random(seed)
        self.rows = [row(number, "m") for number in range(1, ops + 1)]
        self.announcer, self.folder = Announcer(folder / "0.jsonl"), filled(folder / "making", *self.rows)
        self.announcer.begin(self.folder)
        orders = growing(orders_of_nothing(folder), {"m": str(folder / "0.jsonl")}, self.rows, 1)
        self.plan = RunPlan(orders, header("m", folder), self.rows)
        self.tests = ["m::export", *(nodeid(each) for each in self.rows)]
        self.session = SimpleNamespace(queue=queue.SimpleQueue(), shuttingdown=False)
        self.workers = workers
        self.nodes: list[Any] = []
        self.ran: list[str] = []

    def begin(self) -> ReadyScheduling:
        options = {"tx": ["popen"] * self.workers, "maxschedchunk": None}
        config = SimpleNamespace(
            getvalue=options.get,
            getoption=options.get,
            hook=None,
            pluginmanager=SimpleNamespace(getplugin=lambda name: self.session),
        )
        log: Any = SimpleNamespace(loadsched=lambda *words: None)
        self.sched = ReadyScheduling(cast("pytest.Config", config), log, self.plan)
        for _ in range(self.workers):
            self.add()
        self.sched.schedule()
        return self.sched

    def add(self) -> None:
        node: Any = Node(len(self.nodes))
        self.nodes.append(node)
        self.sched.add_node(node)
        self.sched.add_node_collection(node, self.tests)

    def announce(self, *numbers: int) -> None:
        for number in numbers:
            self.announcer.op(self.folder, self.rows[number - 1])

    def look(self) -> None:
        getattr(self.session, f"worker_{LOOK}")()

    def end(self, node: Any) -> None:
        """A worker ends the test that it runs."""
        test = node.tests.pop(0)
        self.ran.append(self.tests[test])
        self.sched.mark_test_complete(node, test, 0.0)

    def in_hand(self) -> list[list[int]]:
        return [node.tests for node in self.nodes]


def test_workers_get_what_can_run_the_first_in_order_first(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, 8, workers=2)
    sched = sweep.begin()
    assert sweep.in_hand() == [[0], []], "a test that is no op"
    assert (sched.has_pending, sched.tests_finished) == (True, False)
    sweep.announce(7, 5, 3)
    sweep.look()
    assert sweep.in_hand() == [[0, 5], [3, 7]], "one each, and the next"
    sweep.announce(1)
    sweep.look()
    assert sweep.in_hand() == [[0, 5], [3, 7]], "nobody has more than the next in hand"
    sweep.end(sweep.nodes[1])
    assert sweep.in_hand() == [[0, 5], [7, 1]]
    for node in [*sweep.nodes] * 2:
        sweep.end(node)
    assert sweep.in_hand() == [[], []]
    assert not any(node.shutting_down for node in sweep.nodes), "the rest is still to come"
    sweep.announcer.cut_off("budget")
    sweep.look()
    assert sorted(chain(*sweep.in_hand())) == [2, 4, 6, 8]
    while any(sweep.in_hand()):
        for node in sweep.nodes:
            if node.tests:
                sweep.end(node)
    assert sched.tests_finished
    assert all(node.shutting_down for node in sweep.nodes)
    assert Counter(sweep.ran) == Counter(sweep.tests)


def test_the_end_of_the_budget_hands_out_all(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, 6, workers=3)
    sweep.plan = replace(sweep.plan, orders=replace(sweep.plan.orders, deadline=time.time() - 1))
    sweep.begin()
    assert sweep.in_hand() == [[0], [], []]
    sweep.look()
    assert sorted(chain(*sweep.in_hand())) == [0, 1, 2, 3, 4, 5], "each has its record at once"


def test_the_controller_is_reminded_to_look(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, 2, workers=1)
    sched = sweep.begin()
    assert sweep.session.queue.get(timeout=10) == (LOOK, {})
    sweep.announcer.failed("killed")
    sweep.look()
    sweep.session.shuttingdown = True
    assert sched._reminder is not None
    sched._reminder.join(10)
    assert not sched._reminder.is_alive()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_each_test_is_run_once(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goldens come in any order, workers end tests and die, xdist puts others in their place."""
    monkeypatch.setattr(ReadyScheduling, "_remind", lambda self: None)
    sweep = Sweep(tmp_path, 12, workers=3, seed=seed)
    draw, coming = sweep.draw, list(range(1, 13))
    draw.shuffle(coming)
    sched = sweep.begin()
    known, dying = {0}, list[Any]()
    for _ in range(600):
        busy = [node for node in sched.nodes if node.tests and not node.dead]
        for node in sched.nodes:
            assert coming == [] or known.issuperset(node.tests), "nobody waits for a golden"
        match draw.choice(("announce", "look", "end", "end", "die", "notice")):
            case "announce" if coming:
                known.add(coming[-1])
                sweep.announce(coming.pop())
            case "look":
                sweep.look()
            case "end" if busy:
                sweep.end(draw.choice(busy))
            case "die" if len(sweep.nodes) < 7 and not dying:
                node = draw.choice(sched.nodes)
                node.dead = True
                dying.append(node)
            case "notice" if dying:
                crashed = sched.remove_node(dying.pop())
                sweep.ran += [crashed] if crashed is not None else []
                sweep.add()
                sched.schedule()
            case _:
                pass
    assert not coming
    assert Counter(sweep.ran) == Counter(sweep.tests)
    assert sched.tests_finished
    assert not sched.has_pending
