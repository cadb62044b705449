"""Where the interactions of a run begin: each such piece runs once more at the optimization levels below the run's.

There is a lane of each level, whose files lie in a folder that is removed: those of the failure stay. Verdicts at that
level are kept, and used, as those of any run at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from opscope.base.temporary_folder import TemporaryFolder
from opscope.harness.backends import registry
from opscope.harness.climb import budget, result_cache
from opscope.harness.lanes.protocol import AnyLane
from opscope.harness.record.isolation import INTERACTION, Artefact
from opscope.harness.record.optest import backend_label
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.run.plan import RunPlan, lane_of
from opscope.harness.triage import after_run, levels
from opscope.harness.triage.bundle import Failure

MOST = 16
"""So many pieces of a backend run again: one of each cause first, the small ones before the large."""


def located(plan: RunPlan, tests: Sequence[OpTest], artefacts: Sequence[Artefact]) -> tuple[list[Artefact], int]:
    """The artefacts of a run with the level where each interaction begins, of backends that have levels; and how many
    have none, as they were more than `MOST`, or the budget was spent. Raises InputError where no lane can start."""
    found: dict[tuple[str, str], int | None] = {}
    for side in plan.sides():
        backend = side.orders.context.backend
        label = backend_label(backend)
        wanted = {one.op_id for one in artefacts if one.label == INTERACTION and one.backend == label}
        if not wanted or not registry.declares(backend, "has_levels"):
            continue
        pieces = after_run.ordered(test for test in tests if test.op_id in wanted and test.backend == label)
        found |= {(test.op_id, label): None for test in pieces}
        own, rows = side.orders.context.options.optimization_level, {row.op_id: row for row in side.rows}
        with _Lower(side) as lower:
            for test in pieces[:MOST]:
                at = partial(lower.run, rows[test.op_id])
                found[test.op_id, label] = levels.begins_at(own, Failure.of(test), at)
    placed = [
        replace(one, level=found.get((one.op_id, one.backend))) if one.label == INTERACTION else one
        for one in artefacts
    ]
    return placed, sum(level is None for level in found.values())


class _Lower:
    """One backend of a run at lower levels; a context manager."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan, self._stack = plan, ExitStack()
        self._in_time = budget.clock(plan.orders.deadline)
        self._lanes: dict[int, tuple[AnyLane, result_cache.ResultCache]] = {}

    def run(self, row: OpRow, level: int) -> OpTest | None:
        """The record of a piece at a level; None once the budget is spent."""
        lane, cache = self._lanes.get(level) or self._made(level)
        test = cache.find(row)
        if test is None and self._in_time():
            test = lane.run(row)
            if (ready := lane.last_ready) is not None:
                cache.keep(row, test, ready)
        return test

    def _made(self, level: int) -> tuple[AnyLane, result_cache.ResultCache]:
        """The lane of a level, which starts with its first piece, and the verdicts that are kept at it."""
        plan, orders = self._plan, self._plan.orders
        folder = self._stack.enter_context(TemporaryFolder("level"))
        options = orders.context.options.changed(optimization_level=level)
        orders = replace(orders, context=replace(orders.context, options=options, run_dir=str(folder)))
        lane = lane_of(orders, plan.folders, plan.writer(f"level{level}"))
        self._stack.callback(lane.close)
        ready = None if orders.ready is None else result_cache.recall(orders.caches, orders.context)
        cache = result_cache.ResultCache(orders.caches, orders.context, ready, plan.folders, orders.doubted)
        self._stack.callback(cache.close)
        self._lanes[level] = lane, cache
        return lane, cache

    def __enter__(self) -> _Lower:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
