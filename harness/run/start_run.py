"""Starts a run: a new one, the rest of one, or ops of one again; the plan of all of them is of one kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opscope.harness.cache import export_folder
from opscope.harness.record import store
from opscope.harness.run import new_run, ops_again, resumed_run
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.progress import Event
from opscope.harness.run.starting import Start, Started


def make(start: Start) -> Started:
    """Prepares the requested run and writes the run folder; a dry one writes nothing.

    Each backend has accepted its options: in its lane, or in an earlier one if nothing has changed since. Raises
    InputError for any bad input.
    """
    request = start.request
    if request.models:
        return new_run.started(start)
    return ops_again.started(start) if request.resume is None else resumed_run.started(start, request.resume)


def completed(plan: RunPlan, report: Callable[[Event], None]) -> RunPlan:
    """The plan once all of its models are prepared and checked against their frameworks; its manifest is written again.

    Raises InputError, and what `report` raises.
    """
    assert plan.preparing is not None
    header, rows = plan.preparing.finish(report, (plan.header, list(plan.rows)))
    plan = replace(plan, header=header, rows=rows, preparing=None)
    store.write_manifest(plan.run_dir, export_folder.below(plan.orders.caches, header), rows)
    return plan
