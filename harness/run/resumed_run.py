"""Starts the rest of a run that was killed, interrupted or out of budget (`--resume`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder, made_of
from opscope.harness.climb import result_cache
from opscope.harness.engine.import_checks import check_all, import_check
from opscope.harness.import_check import hold
from opscope.harness.limitations import limitation_file
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.optest import backend_label, now
from opscope.harness.record.records import ManifestHeader
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.workflows import workflow
from opscope.harness.run import kept_verdicts, resume, starting
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.process_plan import mending, orders_of, settled, shared
from opscope.harness.run.request import to_prepare
from opscope.harness.run.run_lanes import RunLanes
from opscope.harness.run.starting import Start, Started
from opscope.harness.scale import shard

if TYPE_CHECKING:
    from opscope.harness.prepare.preparation import Task


def started(start: Start, run_dir: Path) -> Started:
    """The plan and the lanes of the rest of a run. Raises InputError if it would not agree with its beginning."""
    run = _ResumedRun(start, run_dir)
    with run.lanes.closed_on_error():
        return run.plan(), run.lanes.lanes


def _models(run: store.StoredRun) -> list[str]:
    """The models that a run was asked for. Raises InputError if it says none, as one of `opscope demo`."""
    models = run.record.origin.options.get("models")
    if models is None:
        got = f"{run.record.run_id}, which names none: nobody ran it here"
        raise InputError("--resume", "a run that names the models it was asked for", got, "a new run")
    return models


class _ResumedRun:
    """A run that goes on."""

    def __init__(self, start: Start, run_dir: Path) -> None:
        """Reads it, and claims its folder and exports. Raises InputError."""
        self._start, self._run_dir, self._started = start, run_dir, now()
        if start.dry:
            run = resume.unfinished(run_dir)
        else:
            starting.lock(run_dir, start.claims, "--resume")
            run = store.load_run(run_dir)
            _models(run)
            starting.unseal(run_dir, run.record.run_id)
        store.refuse_other_values(run.rows, run_dir, "--resume")
        settings = self._settings = resume.options(run, start.request.settings.values, start.request.settings.sources)
        models = _models(run)
        exports = run.record.origin.options.get(made_of.RUN, "")
        self._preparation = to_prepare(start.request, settings, models, self._started.timestamp(), exports)
        orders = mending(orders_of(start.request, run.record.run_id, run_dir, settings), self._preparation)
        self._run = run._replace(header=starting.located(run, orders))
        selection = resume.selection(run_dir) or ()
        attempts = resume.attempts(store.read_journal(run_dir))
        rest: dict[str, Any] = {"resumed": True, "attempts": attempts, "op_ids": selection}
        orders = replace(orders, **rest, others=tuple(replace(other, **rest) for other in orders.others))
        share = shard.read(run_dir)
        self._some = share is not None or bool(selection)
        """Whether the run has some of its models' ops only."""
        self._plan = RunPlan(shared(orders, share), self._run.header, self._run.rows)
        for folder in map(Path, self._run.header.export_dirs):
            start.claims.hold(folder)
        self._folders = self._plan.folders
        self.lanes = RunLanes(self._plan, self._folders)

    def _check_compilers(self) -> None:
        """Raises InputError if a compiler was edited since the run began; says so where that cannot be known."""
        for side, ready in zip(self._plan.sides(), self._ready, strict=True):
            context = side.orders.context
            label = backend_label(context.backend)
            tests = {test.op_id: test for test in self._run.tests if test.backend == label}
            if not tests or (ready.lasting and registry.is_own(context.backend)):
                continue  # its fingerprint says it all
            changed = result_cache.changed_since(side.orders.caches, context, ready, self._run.rows, tests)
            if changed:
                raise InputError("--resume", f"{label} as the run started with it", f"{changed} changed", "a new run")
            if changed is None:
                damage.say(f"--resume: {label}: compiler not checked between its parts")

    def plan(self) -> RunPlan:
        """The plan for the rest, once all models are there that it needs."""
        start, cached = self._start, not self._settings["no_cache"]
        self.lanes.recall(cached)
        ready = self._ready = self.lanes.ready()
        self._prepare()
        run, plan = self._run, self._plan
        resume.check_backend(run, starting.fingerprint(ready))
        self._check_compilers()
        if self._settings.get("op_by_op_on_fail"):
            until = self._preparation.until
            orders = starting.run_whole(start, plan.orders, ready, run.header, self._settings, until)
            plan = replace(plan, orders=orders)
        orders = plan.orders
        if self._settings.get("check_kept") and cached and not start.dry:
            day = f"{self._started:%Y-%m-%d}"
            orders = kept_verdicts.checked(orders, self.lanes.lanes, run.header, run.rows, ready, day)
        orders = settled(orders, start.request, run.rows, ready, cached, self._started)
        if not start.dry:
            models = run.record.models if set(run.header.models) <= set(run.record.models) else run.header.models
            going_on = {"models": models, "ended": None, "outcome": "running"}
            store.write_run(self._run_dir, run.record.model_copy(update=going_on))
        return replace(plan, orders=orders)

    def _prepare(self) -> None:
        """Prepares again what is not there, and checks imports that the budget did not reach."""
        start, before = self._start, self._run
        run = resume.prepared(before, self._made, some=self._some)
        self._folders.update(zip(run.header.models, run.header.export_dirs, strict=True))  # of models not reached
        if run is not before or hold.out_of_time(run.header.imports):
            if not start.dry:
                derived = workflow(ResultOptions.of_run(run.record).workflow).derived
                there = export_folder.those_complete(self._own_exports[0] if derived else run.header)
                run = run._replace(header=run.header.model_copy(update={"imports": self._checks(there)}))
            self._plan = replace(self._plan, header=run.header, rows=run.rows)
            if not start.dry:
                header = export_folder.below(self._plan.orders.caches, run.header)
                store.write_manifest(self._run_dir, header, run.rows)
        self._run = run

    def _made(self) -> tuple[Sequence[str], ManifestHeader]:
        """The names of all models, and the header of those that are prepared again."""
        start, orders = self._start, self._plan.orders
        header, _ = starting.by_workflow(start, orders, self._ready, self._own_exports, self._preparation.allowance)
        return [task.name for task in self._named], header

    @cached_property
    def _own_exports(self) -> Manifest:
        """What the models themselves export, whatever the workflow makes of it."""
        start, orders = self._start, self._plan.orders
        listener = self.lanes.listener(start.report)
        return starting.prepared(start, self._preparation, self._named, orders, listener, checks=False)

    @cached_property
    def _named(self) -> Sequence[Task]:
        """The models of the run, where some of them are missing."""
        from opscope.harness.prepare.preparation import tasks

        return tasks(self._preparation)

    def _checks(self, header: ManifestHeader) -> tuple[Any, ...]:
        """Each model's check against its own framework."""
        start = self._start
        check = import_check(start.claims, limitation_file.all_rows(self._plan.orders.limitations))
        return check_all(self._named, header, check, start.report, start.at_once)
