"""Collects a run's tests from its manifest: models that were not prepared, whole models, and the selected ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opscope.base import gc_pause
from opscope.harness.record import store
from opscope.harness.record.records import OpTest
from opscope.harness.run.items import FailedModel, ImportedModel, ModelOps, OpItem, WholeModel

if TYPE_CHECKING:
    from opscope.harness.run.plan import RunPlan


def collect(session: pytest.Session, plan: RunPlan) -> list[pytest.Item]:
    """Collects the tests into `session.items`, in the order in which they run, and calls pytest's hooks about them.

    They stay until the process ends, so that no garbage collection walks them.
    """
    with gc_pause.paused():
        items = _collected(session, plan)
    gc_pause.set_aside()
    return items


def _collected(session: pytest.Session, plan: RunPlan) -> list[pytest.Item]:
    hook = session.config.hook
    items: list[pytest.Item] = []
    session.items = items
    try:
        for collector in _collectors(session, plan):
            hook.pytest_collectstart(collector=collector)
            report = hook.pytest_make_collect_report(collector=collector)
            hook.pytest_collectreport(report=report)
            for item in report.result:
                hook.pytest_itemcollected(item=item)
            items.extend(report.result)
        _select(items, session.config, plan)
        hook.pytest_collection_modifyitems(session=session, config=session.config, items=items)
    finally:
        hook.pytest_collection_finish(session=session)
    return items


def _collectors(session: pytest.Session, plan: RunPlan) -> list[pytest.Collector]:
    """One for each model that failed or whose import was checked, each that ran as one program, and each one's ops."""
    failures = [] if plan.again else plan.header.failed
    checks = [] if plan.again else plan.header.imports
    tags = [side.tag for side in plan.sides()]
    whole: dict[str, list[OpTest]] = {}
    for test in store.whole_tests(plan.run_dir):
        whole.setdefault(test.model_name, []).append(test)
    return [
        *(FailedModel.from_parent(session, name=failure.model, failure=failure) for failure in failures),
        *(
            ImportedModel.from_parent(session, name=check.model, check=check)
            for check in checks
            if check.fails_run or check.expected
        ),
        *(WholeModel.from_parent(session, name=model, tests=tests) for model, tests in whole.items()),
        *(ModelOps.from_parent(session, name=model, rows=rows, tags=tags) for model, rows in plan.by_model().items()),
    ]


def _select(items: list[pytest.Item], config: pytest.Config, plan: RunPlan) -> None:
    """Deselects the ops that --ops, --op and test names on the command line do not name; orders the others."""
    keep = [item for item in items if not isinstance(item, OpItem) or plan.selects(item.row, item.tag)]
    if len(keep) < len(items):
        kept = set(map(id, keep))
        out = [item for item in items if id(item) not in kept]
        config.hook.pytest_deselected(items=out)
        items[:] = keep
    if plan.orders.order:
        place = {op_id: position for position, op_id in enumerate(plan.orders.order)}
        items.sort(key=lambda item: place.get(item.row.op_id, len(place)) if isinstance(item, OpItem) else -1)
