"""Starts a new run: its models are prepared, and its folder is written, while lanes load their backends."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import damage
from opscope.base.file_names import as_text
from opscope.base.results_folder import make_folder, remove_empty
from opscope.harness.cache import export_folder, made_of
from opscope.harness.cache.claims import Claims
from opscope.harness.lanes.flight import Ready
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import backend_label, now
from opscope.harness.record.records import ManifestHeader, RunRecord
from opscope.harness.record.selection import refuse_unmatched, unmatched_globs
from opscope.harness.record.stages import ModelStatus
from opscope.harness.record.workflows import SPLIT
from opscope.harness.run.plan import RunPlan
from opscope.harness.run.process_plan import growing, mending, orders_of, shared
from opscope.harness.run.request import to_prepare
from opscope.harness.run.starting import Start, Starting, fingerprint, lock
from opscope.harness.scale import costs, shard

if TYPE_CHECKING:
    from opscope.harness.engine.preparing import Preparing


class NewRun(Starting):
    """A run that starts from models: its folder is made first, and removed again if it does not begin."""

    def __init__(self, start: Start) -> None:
        """Claims its folder. Raises InputError for one that is taken or cannot be written."""
        request, moment = start.request, now()
        for line in request.notes:
            damage.say(line)
        preparation = to_prepare(request, started=moment.timestamp())
        self._costs = costs.from_option(request.settings["shard_costs"], request.folder)
        names = [task.name for task in request.named]
        run_dir = request.run_dir or run_folders.default_run_dir(names, moment, request.folder)
        if (run_dir / store.RUN_FILE).exists():
            raise _taken(run_dir)
        caches = export_folder.cache_dir(preparation.cache_dir)
        for where, folder in (("--run-dir", run_dir), ("cache folder", caches)):
            if as_text(place := str(folder)) != place:
                hint = "a UTF-8 locale (PYTHONUTF8=1), or another folder"
                raise InputError(where, "a folder whose name is text in this locale", repr(as_text(place)), hint)
        self._creates_folder = not run_dir.exists()
        if not start.dry:
            if request.run_dir is None:
                run_dir = made(names, moment, request.folder)
            claim(run_dir, start.claims)
        orders = mending(orders_of(request, new_id(moment), run_dir, request.settings.values), preparation)
        none_yet = ManifestHeader(models=(), export_dirs=(), module_ops={}, structural={})
        super().__init__(start, RunPlan(orders, none_yet, ()), request.settings.values, preparation, moment)
        self.folders.update((task.name, task.folder) for task in request.named)
        self._preparing: Preparing | None = None

    @property
    def _climbs_early(self) -> bool:
        """Whether ops are climbed while goldens of others are made.

        Not where all goldens are needed first, for a model as a whole. Which ops are a share of a sweep is known from
        the split.
        """
        settings = self.settings
        return not self.start.dry and settings["workflow"] == SPLIT and not settings["op_by_op_on_fail"]

    def begin(self) -> None:
        """Begins to prepare the models, and to load the backends."""
        # A cluster is asked before it gets a walk, which may take its only device for long.
        self.lanes.recall(self.start.cached, start=not self._climbs_early or self.orders.cluster is not None)
        if not self.start.dry:
            self._preparing = self.preparing()

    def prepared(self) -> RunPlan:
        """The models and their ops: as soon as these are known, where they are climbed early."""
        start, orders, settings = self.start, self.orders, self.settings
        early, listener = None, self.lanes.listener(start.report, exporters_first=self._climbs_early)
        if self._preparing is None:
            header, rows = self.all_prepared(listener)
        else:
            early = self._preparing.split(listener) if self._climbs_early else None
            header, rows = early or self._preparing.finish(listener)
        if early is not None:
            orders = growing(orders, rows, start.at_once)
        else:
            of_workflow, rows = self.by_workflow((header, rows))
            header = of_workflow.model_copy(update={"imports": header.imports})
        self.folders.update(zip(header.models, header.export_dirs, strict=True))
        if all(failure.status is not ModelStatus.NOT_RUN for failure in header.failed):
            refuse_unmatched(rows, start.request.ops)  # else a model that the budget cut off may have the op
        for unmatched in unmatched_globs(rows, start.request.ops):
            damage.say(str(unmatched))
        if settings["shard"]:
            share = shard.share(rows, settings["shard"], self._costs)
            orders = shared(orders, share)
            if not start.dry:
                shard.write(self.run_dir, share)
        return RunPlan(orders, header, rows, preparing=self._preparing if header.unfinished else None)

    def write(self, plan: RunPlan) -> None:
        """Writes run.json and manifest.jsonl."""
        request = self.start.request
        options = {"models": list(request.models), "ops": list(request.ops), made_of.RUN: request.run}
        write(plan, self, options)

    def abandon(self) -> None:
        """Ends the preparation, and removes the folder of a run that has not begun."""
        if self._preparing is not None:
            self._preparing.stop()
        if not self.start.dry:
            if self._creates_folder:
                remove_unbegun(self.run_dir)
            else:
                remove_empty(self.run_dir)


def new_id(moment: datetime) -> str:
    """The id of a run that starts at a moment."""
    return f"{moment:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def remove_unbegun(run_dir: Path) -> None:
    """Removes the folder that a run has created and did not begin in."""
    if not (run_dir / store.RUN_FILE).exists():
        shutil.rmtree(run_dir, ignore_errors=True)
    remove_empty(run_dir)


def made(names: Sequence[str], started: datetime, folder: Path) -> Path:
    """The folder of a run that names none, created. Raises InputError if it cannot be."""
    try:
        return run_folders.make_run_dir(names, started, folder)
    except OSError as error:
        raise store.refused(run_folders.runs_root(folder), error) from error


def claim(run_dir: Path, claims: Claims) -> None:
    """Creates the run folder and locks it before a model is exported. Raises InputError if it cannot be written, or if
    another run writes to it or has done so."""
    probe = run_dir / ".writable"
    try:
        make_folder(run_dir)
        lock(run_dir, claims, "--run-dir", "another folder")
        if (run_dir / store.RUN_FILE).exists():  # of a run that ended meanwhile
            raise _taken(run_dir)
        probe.write_bytes(b"opscope")
        probe.unlink()
    except OSError as error:
        raise store.refused(run_dir, error) from error


def _taken(run_dir: Path) -> InputError:
    return InputError(
        "--run-dir",
        "a new folder with --model",
        f"{run_dir}, which contains a run",
        "another folder, or --op to run its ops again",
    )


def _versions(plan: RunPlan, ready: Sequence[Ready]) -> dict[str, dict[str, str]]:
    """What the backends of a run consist of, for each one that says so."""
    labels = [backend_label(side.orders.context.backend) for side in plan.sides()]
    return {label: dict(answer.versions) for label, answer in zip(labels, ready, strict=True) if answer.versions}


def _anywhere(url: str, folder: Path) -> str:
    """A URL as it is meant in `folder`: `--resume` may be called in another one, where a file's name means another."""
    relative = re.fullmatch(r"(sqlite(?:\+\w+)?:///)(?!/|:memory:|file:)(.+)", url, re.DOTALL)
    return f"{relative[1]}{folder.absolute()}/{relative[2]}" if relative else url


def write(plan: RunPlan, run: Starting, own: Mapping[str, Any]) -> None:
    """Writes run.json and manifest.jsonl; `own` are options that the request has not, or has otherwise."""
    from opscope.harness.backends import compiler_commits
    from opscope.harness.cache.conditions import conditions
    from opscope.harness.record import origin

    request, ready = run.start.request, run.ready
    options = {
        **request.settings.masked(),
        "ops": [],
        **own,
        origin.FOLDER: str(plan.run_dir),
        "fingerprint": fingerprint(ready),
        origin.CONDITIONS: conditions(),
    }
    if options.get("publish"):
        options["publish"] = _anywhere(options["publish"], request.folder)
    if versions := _versions(plan, ready):
        options["versions"] = versions
    named = {side.orders.context.backend: answer.commit for side, answer in zip(plan.sides(), ready, strict=True)}
    compilers = compiler_commits.commits(named, request.folder)
    record = RunRecord(
        run_id=plan.orders.context.run_id,
        models=plan.header.models,
        backend=",".join(backend_label(side.orders.context.backend) for side in plan.sides()),
        arch=plan.orders.context.options.arch,
        started=run.moment,
        origin=origin.origin(run.start.command_line, options, request.folder, compilers),
    )
    store.write_manifest(plan.run_dir, export_folder.below(plan.orders.caches, plan.header), plan.rows)
    store.write_run(plan.run_dir, record)
