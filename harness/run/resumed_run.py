"""Starts the rest of a run that was killed, interrupted or out of budget (`--resume`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from opscope.base import damage
from opscope.harness.backends import registry
from opscope.harness.cache import export_folder, made_of
from opscope.harness.climb import result_cache
from opscope.harness.engine.import_checks import check_all, import_check
from opscope.harness.import_check import hold
from opscope.harness.limitations import limitation_file
from opscope.harness.record import artifacts, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest
from opscope.harness.record.optest import backend_label, now
from opscope.harness.record.records import ManifestHeader
from opscope.harness.record.result_options import ResultOptions
from opscope.harness.record.workflows import workflow
from opscope.harness.run import resume
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.process_plan import mending, orders_of, shared
from opscope.harness.run.request import to_prepare
from opscope.harness.run.starting import Start, Starting, fingerprint, lock
from opscope.harness.scale import shard


def _models(run: store.StoredRun) -> list[str]:
    """The models that a run was asked for. Raises InputError if it says none, as one of `opscope demo`."""
    models = run.record.origin.options.get("models")
    if models is None:
        got = f"{run.record.run_id}, which names none: nobody ran it here"
        raise InputError("--resume", "a run that names the models it was asked for", got, "a new run")
    return models


class RestOfRun(Starting):
    """A run that goes on."""

    def __init__(self, start: Start) -> None:
        """Reads it, and claims its folder and exports. Raises InputError."""
        assert start.request.resume is not None
        run_dir, moment = start.request.resume, now()
        if start.dry:
            run = resume.unfinished(run_dir)
        else:
            lock(run_dir, start.claims, "--resume")
            run = store.load_run(run_dir)
        models, exports = _models(run), run.record.origin.options.get(made_of.RUN, "")
        if not start.dry:
            _unseal(run_dir, run.record.run_id)
        store.refuse_other_values(run.rows, run_dir, "--resume")
        settings = resume.options(run, start.request.settings.values, start.request.settings.sources)
        preparation = to_prepare(start.request, settings, models, moment.timestamp(), exports)
        orders = mending(orders_of(start.request, run.record.run_id, run_dir, settings), preparation)
        selection, share = resume.selection(run_dir) or (), shard.read(run_dir)
        attempts = resume.attempts(store.read_journal(run_dir))
        orders = shared(orders.alike(resumed=True, attempts=attempts, op_ids=selection), share)
        own = export_folder.cache_dir(run.record.origin.options.get("cache_dir"))
        header = export_folder.located(run.header, orders.caches, own)
        super().__init__(start, RunPlan(orders, header, run.rows), settings, preparation, moment)
        self._run = run._replace(header=header)
        self._some = share is not None or bool(selection)
        """Whether the run has some of its models' ops only."""

    def prepared(self) -> RunPlan:
        """The plan of the rest: what is not there is prepared again, and imports are checked that the budget did not
        reach, or whose check was killed. Raises InputError if it would not agree with the run's beginning."""
        start, before = self.start, self._run
        run = self._run = resume.prepared(before, self._made, some=self._some)
        self.folders.update(zip(run.header.models, run.header.export_dirs, strict=True))  # of models not reached
        if (run is not before or hold.unfinished(run.header.imports)) and not start.dry:
            derived = workflow(ResultOptions.of_run(run.record).workflow).derived
            there = export_folder.those_complete(self._own_exports[0] if derived else run.header)
            check = import_check(start.claims, limitation_file.all_rows(self.orders.limitations))
            imports = check_all(self.named, there, check, start.report, start.at_once)
            run = self._run = run._replace(header=run.header.model_copy(update={"imports": imports}))
            store.write_manifest(self.run_dir, export_folder.below(self.orders.caches, run.header), run.rows)
        resume.check_backend(run, fingerprint(self.ready))
        self._check_compilers()
        return replace(self.known, header=run.header, rows=run.rows)

    def write(self, plan: RunPlan) -> None:
        """Says in run.json that the run goes on."""
        record, models = self._run.record, plan.header.models
        models = record.models if set(models) <= set(record.models) else models
        going_on = {"models": models, "ended": None, "outcome": "running"}
        store.write_run(self.run_dir, record.model_copy(update=going_on))

    def abandon(self) -> None:
        """Leaves what there is: the run can go on another time."""

    def _check_compilers(self) -> None:
        """Raises InputError if a compiler was edited since the run began; says so where that cannot be known."""
        for side, ready in zip(self.known.sides(), self.ready, strict=True):
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

    def _made(self) -> tuple[Sequence[str], ManifestHeader]:
        """The names of all models, and the header of those that are prepared again."""
        return [task.name for task in self.named], self.by_workflow(self._own_exports)[0]

    @cached_property
    def _own_exports(self) -> Manifest:
        """What the models themselves export, whatever the workflow makes of it."""
        return self.all_prepared(self.lanes.listener(self.start.report), checks=False)


def _unseal(run_dir: Path, run_id: str) -> None:
    """Checks the artifacts of a run that goes on. Raises InputError if the disk refuses it."""
    try:
        artifacts.unseal(run_dir, run_id)
    except OSError as error:
        raise store.refused(run_dir / artifacts.FILE, error) from error
