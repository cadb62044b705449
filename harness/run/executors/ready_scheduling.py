"""xdist's distribution of tests to workers, which hands out ops once their goldens are there, the first in order first.

Whoever gets an op can run it at once. Once no op waits for goldens, tests are handed out as xdist's own does.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScheduling

from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.climb import budget
from opscope.harness.jobs.ready_ops import ReadyOps
from opscope.harness.run.plan import RunPlan, nodeid

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

IN_HAND = 2
"""How many ops a worker has at most while goldens are made: the one that it runs, and the next."""
PAUSE, SHARE = 0.05, 20
"""Seconds between two looks at what was announced, at least, and how many times as long as a look takes."""
WAIT = 10.0
"""Seconds after which nobody waits for a look any more: the controller's loop has ended, or is very late."""
LOOK = "look_for_goldens"
"""Name of the event that has the controller look."""


class ReadyScheduling(LoadScheduling):
    """Keeps back the ops that wait for goldens; `pending` has the tests that can be handed out."""

    def __init__(self, config: pytest.Config, log: Any, plan: RunPlan) -> None:
        super().__init__(config, log)
        self._plan = plan
        self._session: Any = config.pluginmanager.getplugin("dsession")
        self._in_time = budget.clock(plan.orders.deadline)
        self._ops: ReadyOps | None = None
        self._places: dict[str, list[int]] = {}
        """By op: its tests, by their places in the collection."""
        self._looked = threading.Event()
        self._looked_at, self._pause = float("-inf"), PAUSE
        self._reminder: threading.Thread | None = None

    @property
    def _keeps_back(self) -> bool:
        return self._ops is not None and self._ops.waiting

    @property
    def tests_finished(self) -> bool:
        """Whether all tests are handed out and but one of each worker is over."""
        return not self._keeps_back and super().tests_finished

    @property
    def has_pending(self) -> bool:
        """Whether tests are under way or still to come."""
        return self._keeps_back or super().has_pending

    def schedule(self) -> None:
        """Begins to hand out tests, once; later on, hands out to workers that were added."""
        if self.collection is not None or not self._check_nodes_have_same_collection():
            super().schedule()
            return
        collection = next(iter(self.node2collection.values()))
        places = {test: place for place, test in enumerate(collection)}
        rows = {}
        for side in self._plan.sides():
            for row in self._plan.rows:
                if (place := places.get(nodeid(row, side.tag))) is not None and row.module is not None:
                    rows[row.op_id] = row
                    self._places.setdefault(row.op_id, []).append(place)
        exports = {model: GrowingExport(Path(path)) for model, path in self._plan.orders.growing.items()}
        ops = ReadyOps(exports, rows.values())
        ready = {place for op_id in ops.look() for place in self._places[op_id]}
        if not ops.waiting:
            super().schedule()
            return
        of_ops = {place for op_places in self._places.values() for place in op_places}
        self._ops, self.collection = ops, collection
        if self.maxschedchunk is None:
            self.maxschedchunk = len(collection)
        self.pending[:] = [place for place in range(len(collection)) if place in ready or place not in of_ops]
        setattr(self._session, f"worker_{LOOK}", self._look)
        self._hand_out()

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:
        """Hands tests to a worker that has ended one."""
        if self._keeps_back and time.monotonic() - self._looked_at > self._pause:
            self._look()
        elif self._keeps_back:
            self._hand_out()
        else:
            self.pending.sort()
            super().check_schedule(node, duration)

    def _remind(self) -> None:
        """Has the controller look now and then; its loop sleeps until something happens. A thread's work."""
        while self._keeps_back and not self._session.shuttingdown:
            time.sleep(self._pause)
            self._looked.clear()
            self._session.queue.put((LOOK, {}))
            self._looked.wait(WAIT)

    def _look(self) -> None:
        """Hands out what has become ready since the last look, and once the budget is over, all."""
        if self._keeps_back:
            assert self._ops is not None
            began = time.monotonic()
            ready = self._ops.look() if self._in_time() else self._ops.rest()
            self._looked_at = time.monotonic()
            self._pause = max(PAUSE, SHARE * (self._looked_at - began))
            self.pending.extend(place for op_id in ready for place in self._places[op_id])
            if self._keeps_back:
                self._hand_out()
            else:
                for node in self.nodes:
                    self.check_schedule(node)
        self._looked.set()

    def _hand_out(self) -> None:
        """Gives each worker an op, those that have none first, and then the next one."""
        if self._reminder is None or not self._reminder.is_alive():  # it ends when xdist begins to end its workers
            self._reminder = threading.Thread(target=self._remind, name="opscope announcements", daemon=True)
            self._reminder.start()
        self.pending.sort()
        for count in range(IN_HAND):
            for node in self.nodes:
                if self.pending and len(self.node2pending[node]) == count and not node.shutting_down:
                    self._send_tests(node, 1)

    def _send_tests(self, node: WorkerController, num: int) -> None:
        """As xdist does it; what a worker does not get that has just died is kept for the others."""
        tests = self.pending[:num]
        try:
            super()._send_tests(node, num)
        except OSError:
            own = self.node2pending[node]
            self.node2pending[node] = [test for test in own if test not in tests]
            self.pending[:0] = tests
