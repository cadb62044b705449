"""Runs ops of an earlier run again (`--op`, `--run-dir` without `--model`), without exporting their models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opscope.harness.cache import export_folder, made_of
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.result_options import OPTIONS
from opscope.harness.record.selection import find_op_ids
from opscope.harness.run import resume
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.process_plan import mending, orders_of
from opscope.harness.run.request import Request, to_prepare
from opscope.harness.run.run_lanes import RunLanes
from opscope.harness.run.starting import Start, Started, located, lock, unseal

FROM_THE_RUN = ("backend", *OPTIONS, "op_timeout", "op_memory")
"""Settings that an op of an earlier run takes from that run, unless they are given again."""


def started(start: Start) -> Started:
    """The plan and the lanes, which are ready. Raises InputError for any bad input."""
    plan = from_run(start.request)
    if not start.dry:
        lock(plan.run_dir, start.claims, "--op")
        unseal(plan.run_dir, plan.orders.context.run_id)
    for folder in map(Path, plan.header.export_dirs):
        start.claims.hold(folder)
    export_folder.refuse_removed(plan.header, plan.selected(), plan.run_dir, "--op")
    lanes = RunLanes(plan, plan.folders)
    with lanes.closed_on_error():
        lanes.ready()
    return plan, lanes.lanes


def from_run(request: Request) -> RunPlan:
    """Makes the plan for running ops of an earlier run again.

    Raises InputError if there is no run, if it has another schema, or if there is no such op.
    """
    server = request.settings["artifact_url"]
    run_dir = run_of_ops(request.run_dir, request.folder, request.op_ids, server)
    run = store.load_run(run_dir)
    store.refuse_other_values(run.rows, run_dir, "--op")
    settings = dict(request.settings.values)
    for name in FROM_THE_RUN:
        stored = run.record.origin.options.get(name)
        if stored is not None and not request.settings.is_set(name):
            settings[name] = stored
    ids = find_op_ids(run.rows, request.op_ids) if request.op_ids else set()
    attempts = resume.attempts(store.read_journal(run_dir))
    orders = orders_of(request, run.record.run_id, run_dir, settings)
    rest: dict[str, Any] = {"attempts": attempts, "op_ids": tuple(ids)}
    orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
    if models := run.record.origin.options.get("models"):
        orders = mending(
            orders, to_prepare(request, settings, models, run=run.record.origin.options.get(made_of.RUN, ""))
        )
    plan = RunPlan(orders, located(run, orders), run.rows, again=True)
    store.refuse_unprepared(plan.header, plan.selected(), run_dir, "--op")
    return plan


def run_of_ops(run_dir: Path | None, folder: Path, op_ids: Sequence[str], server: str | None = None) -> Path:
    """The run whose ops run again: `run_dir`, or the newest in `folder` that has them, or the newest of all.

    Raises InputError where there is none, with the command that fetches an op from the machine that has the run.
    """
    words = [op_id for op_id in op_ids if op_id]
    address = server or "DATABASE, or --from http://HOST:PORT of the artifact server of that machine"
    fetch = f"opscope repro {words[0] if words else 'ID'} --from {address}"
    if run_dir is not None:
        if words and not (run_dir / store.RUN_FILE).is_file():
            raise InputError("--run-dir", "a run folder of this machine", f"{run_dir}, which has no run.json", fetch)
        return run_dir
    run = next(run_folders.runs_with_ops(words, folder), None) or run_folders.newest_run(folder)
    if run is None:
        raise InputError("--op", "a run that contains the op", "no run in .opscope/runs", f"--run-dir DIR, or {fetch}")
    return run
