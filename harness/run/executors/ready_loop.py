"""pytest's loop over the ops of one lane while goldens are made: always the first whose goldens are there."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

import pytest

from opscope.harness.jobs.goldens import AwaitedGoldens
from opscope.harness.jobs.ready_ops import ReadyOps
from opscope.harness.run.executors.cluster_loop import run_test
from opscope.harness.run.items import OpItem

LOOK = 0.05
"""Seconds between two looks at what was announced as long as there is something to run."""


def run(session: pytest.Session, goldens: AwaitedGoldens, in_time: Callable[[], bool]) -> None:
    """Runs every test of the session, in their order but for ops that wait for their goldens.

    Once it is no more `in_time`, nobody waits: each op has its record at once.
    """
    items, places = list(session.items), dict[str, list[int]]()
    ready_places: list[int] = []
    for place, item in enumerate(items):
        if isinstance(item, OpItem):
            places.setdefault(item.row.op_id, []).append(place)
        else:
            ready_places.append(place)
    ops = ReadyOps(goldens.exports, (item.row for item in items if isinstance(item, OpItem)))
    looked = float("-inf")

    def look() -> bool:
        """Whether there is something to run."""
        nonlocal looked
        if ops.waiting and (not ready_places or time.monotonic() - looked > LOOK):
            for op_id in ops.look() if in_time() else ops.rest():
                for place in places[op_id]:
                    heapq.heappush(ready_places, place)
            looked = time.monotonic()
        return bool(ready_places)

    for _ in items:
        if not look():
            goldens.wait(look)
        run_test(session, items[heapq.heappop(ready_places)])
