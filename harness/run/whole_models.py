"""`--op-by-op-on-fail`: runs each model as one program first, and its ops only if that fails.

The records are in RUN/whole.jsonl, apart from those of the ops, because the ledger counts only ops. An op is left out
if every model that uses it ran whole on every backend of the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.harness.climb import budget, result_cache
from opscope.harness.engine.climber import Climber, Terms
from opscope.harness.engine.cluster import ClusterEngine
from opscope.harness.engine.engine import Done, OpJob
from opscope.harness.engine.local import LocalEngine
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record import store
from opscope.harness.record.optest import DEFAULT_BACKEND, backend_label
from opscope.harness.record.records import OpTest
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.stages import FAILED, Status
from opscope.harness.record.workflows import FULL, workflow
from opscope.harness.run.plan import RunPlan, lane_of
from opscope.harness.run.process_plan import Orders
from opscope.models.registry import TRAINING

if TYPE_CHECKING:
    from opscope.harness.lanes.flight import Ready

SPARED = "its models ran whole"
"""Reason in the record of an op that was left out."""


def run(
    plan: RunPlan,
    ready: Sequence[Ready] | None,
    report: Callable[[Any], None],
    settings: Mapping[str, Any],
    until: float | None,
    at_once: int,
) -> None:
    """Runs each model of a plan whole on each backend, unless the run folder already has its record; none begins after
    `until` (time.time). Raises a lane's InputError.

    `settings` are the run's: whole models may use the host even if their single ops may not. `ready` is each backend's
    report; with None, no kept verdict is used. Models run in `at_once` lanes of this machine.
    """
    sides = replace(plan, rows=()).sides()
    options = ResultOptions.of({**settings, "workflow": FULL})
    ended = [test for test in store.whole_tests(plan.run_dir) if test.status is not Status.NOT_RUN]
    recorded = {(test.model_name, test.backend) for test in ended}
    rows = whole_rows(plan.header.export_dirs)
    wholes = [_Side(side, options) for side in sides]
    jobs = [
        OpJob(row, whole.plan.tag)
        for whole in wholes
        for row in rows
        if (row.uses[0].model, backend_label(whole.plan.orders.context.backend)) not in recorded
    ]
    if not jobs:
        return
    reports = dict(zip([whole.plan.tag for whole in wholes], ready or [None] * len(wholes), strict=True))

    def climbers(number: int, check: Callable[[], None], on_lane: Callable[[], None]) -> Mapping[str, Climber]:
        terms = Terms(deadline=until, check=check, on_lane=on_lane)
        return {tag: whole.climber(number, reports[tag], terms) for tag, whole in by_tag.items()}

    by_tag = {whole.plan.tag: whole for whole in wholes}
    on_cluster = sides[0].orders.cluster is not None
    engine = ClusterEngine(climbers(0, lambda: None, lambda: None)) if on_cluster else LocalEngine(climbers, at_once)
    try:
        engine.start(jobs)
        for event in engine.records(jobs):
            if isinstance(event, Done) and event.test.status is Status.NOT_RUN:
                continue
            done = int(isinstance(event, Done))
            report({"event": "stage", "model": event.job.row.uses[0].model, "stage": "whole", "done": done, "total": 1})
    finally:
        engine.close()
        for whole in wholes:
            whole.journal.close()


class _Side:
    """One backend, as it runs models whole."""

    def __init__(self, plan: RunPlan, options: ResultOptions) -> None:
        orders = replace(
            plan.orders,
            op_timeout=workflow(FULL).patience * plan.orders.op_timeout,
            context=replace(plan.orders.context, options=options),
        )
        self.plan = replace(plan, orders=orders)
        self.journal = _Journal(self.plan)

    def climber(self, number: int, ready: Ready | None, terms: Terms) -> Climber:
        """What runs models in the lane of a number."""
        plan, orders = self.plan, self.plan.orders
        lane = lane_of(orders, plan.folders, plan.writer(f"whole{number + 1}" if number else "whole"), terms.check)
        cache = result_cache.ResultCache(orders.caches, orders.context, ready, plan.folders)
        return Climber(orders.context, lane, self.journal, replace(terms, cache=cache))


class _Journal(store.Journal):
    """RUN/whole.jsonl."""

    def __init__(self, plan: RunPlan) -> None:
        super().__init__(plan.run_dir, plan.writer("whole"), store.WHOLE_FILE)
        self._orders = plan.orders

    def append(self, test: OpTest, text: str = "") -> None:
        """Adds a record, but of a model that the budget left out: its ops say so."""
        if not budget.left_out(test):
            super().append(test.model_copy(update={"repro": _repro(test.model_name, self._orders)}))


def _repro(model: str, orders: Orders) -> str:
    """A command line that runs the model whole again, from the folder of this run or another checkout of it."""
    context = orders.context
    # Without the suffix of training steps, which `--training` adds to the name again.
    name = model.removesuffix(TRAINING) if context.options.training else model
    asked = (orders.preparation or {}).get("models") or ()
    words = ["pytest", "--model", next((word for word in asked if Path(word).stem == name), name), "--workflow", FULL]
    if context.backend != DEFAULT_BACKEND:
        words += ["--backend", context.backend]
    words += context.options.flags(usual=ResultOptions(workflow=FULL))
    return shlex.join(word.replace(f"{Path.cwd()}/", "") for word in words)


def ran(tests: Iterable[OpTest]) -> tuple[str, ...]:
    """The models that ran, and failed on no backend, by the last record of each on each."""
    failed: dict[str, bool] = {}
    for test in {(test.model_name, test.backend): test for test in tests}.values():
        bad = test.status in FAILED or test.status is Status.NOT_RUN
        failed[test.model_name] = failed.get(test.model_name, False) or bad
    return tuple(model for model, bad in failed.items() if not bad)
