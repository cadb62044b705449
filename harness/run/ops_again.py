"""Runs ops of an earlier run again (`--op`, `--run-dir` without `--model`), without exporting their models.

They are a run of its own, which says of which run it is the answer: what an earlier run, or a night, says stays as it
is, whatever has become of its compiler since.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opscope.harness.cache import export_folder, made_of
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.masking import masked
from opscope.harness.record.optest import now
from opscope.harness.record.origin import ANSWERS
from opscope.harness.record.result_options import OPTIONS
from opscope.harness.record.selection import find_op_ids
from opscope.harness.run import new_run
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.process_plan import mending, orders_of
from opscope.harness.run.request import Request, to_prepare
from opscope.harness.run.run_lanes import RunLanes
from opscope.harness.run.starting import Start, Started, located

FROM_THE_RUN = ("backend", *OPTIONS, "op_timeout", "op_memory")
"""Settings that an op of an earlier run takes from that run, unless they are given again."""


def started(start: Start) -> Started:
    """The plan and the lanes, which are ready; the run folder is written. Raises InputError for any bad input."""
    moment, (plan, options) = (
        now(),
        _made(start.request, new_run.made if not start.dry else run_folders.default_run_dir),
    )
    if not start.dry:
        new_run.claim(plan.run_dir, start.claims)
    for folder in map(Path, plan.header.export_dirs):
        start.claims.hold(folder)
    export_folder.refuse_removed(plan.header, plan.selected(), plan.run_dir, "--op")
    lanes = RunLanes(plan, plan.folders)
    try:
        with lanes.closed_on_error():
            ready = lanes.ready()
            if not start.dry:
                new_run.write(plan, start, moment, ready, options)
    except BaseException:
        if not start.dry:
            new_run.remove_unbegun(plan.run_dir)
        raise
    return plan, lanes.lanes


def from_run(request: Request) -> RunPlan:
    """The plan for running ops of an earlier run again, in a folder that is not there yet.

    Raises InputError if there is no run, if it has another schema, or if there is no such op.
    """
    return _made(request, run_folders.default_run_dir)[0]


def _made(request: Request, place: Callable[..., Path]) -> tuple[RunPlan, dict[str, Any]]:
    """The plan, and the options that its record has in place of the request's. `place` returns the run's folder."""
    server = request.settings["artifact_url"]
    earlier = run_of_ops(request.run_dir, request.folder, request.op_ids, server)
    run = store.load_run(earlier)
    store.refuse_other_values(run.rows, earlier, "--op")
    settings, options = dict(request.settings.values), run.record.origin.options
    for name in FROM_THE_RUN:
        if options.get(name) is not None and not request.settings.is_set(name):
            settings[name] = options[name]
    ids = find_op_ids(run.rows, request.op_ids) if request.op_ids else set()
    moment = now()
    run_dir = place(["again", *sorted(ids)[:1]], moment, request.folder)
    orders = orders_of(request, f"{moment:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}", run_dir, settings)
    rest: dict[str, Any] = {"op_ids": tuple(ids)}
    orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
    models = options.get("models")
    if models:
        orders = mending(orders, to_prepare(request, settings, models, run=options.get(made_of.RUN, "")))
    header, rows = _of_ops((located(run, orders), run.rows), ids)
    plan = RunPlan(orders, header, rows, again=True)
    store.refuse_unprepared(plan.header, plan.selected(), earlier, "--op")
    own = {name: settings[name] for name in FROM_THE_RUN}
    own |= {"models": list(models or ()), made_of.RUN: options.get(made_of.RUN, "")}
    return plan, {**masked(own), ANSWERS: {"run": run.record.run_id, "ops": sorted(ids)}}


def _of_ops(manifest: Manifest, ids: Collection[str]) -> Manifest:
    """A manifest of the models alone that use some of its ops; of all models where none is named."""
    header, rows = manifest
    models = {use.model for row in rows if row.op_id in ids for use in row.uses} or set(header.models)
    kept = [(model, folder) for model, folder in zip(header.models, header.export_dirs, strict=True) if model in models]
    update = {
        "models": tuple(model for model, _ in kept),
        "export_dirs": tuple(folder for _, folder in kept),
        "module_ops": {model: header.module_ops[model] for model, _ in kept},
        "structural": {model: header.structural[model] for model, _ in kept},
        "failed": tuple(failure for failure in header.failed if failure.model in models & set(header.models)),
        "imports": (),
        "unfinished": tuple(model for model in header.unfinished if model in models),
    }
    used = ((row, tuple(use for use in row.uses if use.model in models)) for row in rows)
    return header.model_copy(update=update), [row.model_copy(update={"uses": uses}) for row, uses in used if uses]


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
