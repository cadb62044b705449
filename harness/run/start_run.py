"""Starts a run: a new one, the rest of one, or ops of one again; all take the same steps to a plan of one kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opscope.harness.cache import export_folder
from opscope.harness.record import store
from opscope.harness.run.new_run import NewRun
from opscope.harness.run.ops_again import OpsAgain
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.progress import Event
from opscope.harness.run.resumed_run import RestOfRun
from opscope.harness.run.starting import Start, Started, Starting


def make(start: Start) -> Started:
    """Prepares the requested run and writes the run folder; a dry one writes nothing.

    Each backend has accepted its options: in its lane, or in an earlier one if nothing has changed since. Raises
    InputError for any bad input.
    """
    request = start.request
    kind = NewRun if request.models else OpsAgain if request.resume is None else RestOfRun
    run: Starting = kind(start)
    try:
        with run.lanes.closed_on_error():
            run.begin()
            plan = run.settled(run.prepared())
            if not start.dry:
                run.write(plan)
            return plan, run.lanes.lanes
    except BaseException:
        run.abandon()
        raise


def completed(plan: RunPlan, report: Callable[[Event], None]) -> RunPlan:
    """The plan once all of its models are prepared and checked against their frameworks; its manifest is written again.

    Raises InputError, and what `report` raises.
    """
    assert plan.preparing is not None
    header, rows = plan.preparing.finish(report, (plan.header, list(plan.rows)))
    plan = replace(plan, header=header, rows=rows, preparing=None)
    store.write_manifest(plan.run_dir, export_folder.below(plan.orders.caches, header), rows)
    return plan
