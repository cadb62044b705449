"""The jobs of a run's models: export and split, walk, check of the import; each is done by child processes.

    split a  split b  split c        where more models are new than may be under way at once, or where others walk them
       |        |        |
    walk a   walk b   walk c         the model's export folder, which is taken as it is where it is complete
       |        |        |
    check a  check b  check c        against the model's own framework

The first of this list that has what it needs comes first (`jobs.py`): all ops are known
early, cached models' at once. This file imports neither jax nor numpy: pytest processes call it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from opscope.base import clocks, damage, stored
from opscope.base.damage import Damaged
from opscope.base.file_names import as_text
from opscope.base.inner_path import inside
from opscope.base.slots import SlotAddress, SlotServer
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.claims import Claims, alone_in
from opscope.harness.cache.growing_export import GrowingExport
from opscope.harness.engine.jobs import Job, Kind, Turn, side_by_side
from opscope.harness.prepare.allowance import EXPORT, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.exporting import ExportFailed
from opscope.harness.prepare.make_folder import Elsewhere, Event, Making, Unpreparable, make
from opscope.harness.prepare.preparation import Preparation, Task, request_of, tasks
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.manifests import Manifest, merge_all
from opscope.harness.record.records import ImportCheck, ModelFailure, OpRow
from opscope.harness.record.stages import ModelStatus

Report = Callable[[Event], None]
Check = Callable[[Task, Path, SlotAddress | None, Turn], ImportCheck]
"""Holds a model with a complete export folder to its framework; its processes work in slots."""
T = TypeVar("T")


@dataclass(frozen=True)
class Means:
    """What models are made with."""

    claims: Claims = field(default_factory=Claims)
    """Hold the export folders."""
    artifacts: Path | None = None
    """The folder of tracebacks; with None, these are not kept."""
    at_once: int = 1
    """How many jobs are under way on this machine."""
    check: Check | None = None
    """With None, imports are not checked."""
    elsewhere: Elsewhere | None = None
    """The machines that walk models. With None, this one does."""
    splits: Path | None = None
    """The folder in which splits are kept of models whose ops are announced before their goldens are made; with None,
    they are not announced."""
    changed: Callable[[], None] = lambda: None
    """Called, on any thread, when more is known of such ops."""
    slots: SlotAddress | None = None
    """Each process works in one of these, so that a model may have several."""


def prepare(
    request: Preparation | Mapping[str, Any],
    on_event: Report | None = None,
    means: Means | None = None,
    named: Sequence[Task] = (),
) -> Manifest:
    """Prepares all models of the request (`named`, where they are known) and merges their manifests by op id.

    A row that several models share keeps the files and the chosen use of the first; uses are joined. A model that is
    not prepared is in the header's `failed`. Raises InputError for an unknown model, a single file that is no
    StableHLO, a request of which no model has its framework here, a cache that cannot be written.
    """
    request = request if isinstance(request, Preparation) else request_of(request)
    means = means or Means()
    with contextlib.ExitStack() as stack:
        slots = stack.enter_context(SlotServer(means.at_once)).address if means.at_once > 1 else None
        report = on_event or (lambda event: None)
        return ModelJobs(request, replace(means, slots=slots), report, named=named).done()


class ModelJobs:
    """The jobs of the models of a request."""

    def __init__(
        self,
        request: Preparation,
        means: Means,
        report: Report,
        stop: Callable[[], bool] = lambda: False,
        named: Sequence[Task] = (),
    ) -> None:
        """`stop` says when to end; `named` has the models that the request names, where that is known. Raises
        InputError as `prepare` does."""
        self._request, self._report, self._stop = request, report, stop
        self.tasks = [_writable(task, means.claims) for task in named or tasks(request)]
        if all(task.missing for task in self.tasks):
            missing, _, hint = self.tasks[0].missing.partition("; try ")
            raise InputError(f"--model {self.tasks[0].name}", "its framework to be installed", missing, hint)
        self.exports: dict[str, GrowingExport] = {}
        """What is known of each model's export by now, where ops are announced."""
        if (places := means.splits) is not None:
            self.tasks = [replace(task, kept=str(places / f"{number}.split")) for number, task in enumerate(self.tasks)]
            self.exports = {task.name: GrowingExport(means.changed) for task in self.tasks}
        self._means = replace(means, at_once=min(means.at_once, len(self.tasks)))
        self.outcomes: dict[str, Manifest | ModelFailure] = {}
        """What became of each model that is no longer under way."""
        self._checks: dict[str, ImportCheck] = {}
        self._spent: dict[str, float] = {}
        """Seconds that a model has taken that is only split."""

    def done(self) -> Manifest:
        """Does all jobs. Raises InputError, or Stopped where `stop` says so."""
        self._report({"event": "models", "total": len(self.tasks)})
        side_by_side(self._jobs(), self._means.at_once, self._report, stop=self._stop)
        header, rows = merge_all([self.outcomes[task.name] for task in self.tasks])
        checks = tuple(self._checks[task.name] for task in self.tasks if task.name in self._checks)
        return header.model_copy(update={"imports": checks}), rows

    def _jobs(self) -> list[Job[None]]:
        """The jobs in the order in which they begin where nothing holds them up."""
        means, jobs = self._means, list[Job[None]]()
        new = {task.name: task for task in self.tasks if self._is_new(task)}
        apart = means.elsewhere is not None or len(new) > means.at_once
        numbers: dict[tuple[Kind, str], int] = {}

        def add(kind: Kind, task: Task, work: Callable[[Task, Turn], None], *after: Kind, away: bool = False) -> None:
            numbers[kind, task.name] = len(jobs)
            needs = [numbers[other, task.name] for other in after]
            jobs.append(Job(kind, task.name, partial(work, task), needs, away))

        for task in self.tasks:
            if task.name not in new:
                add(Kind.WALK, task, self.walk)
        for task in new.values() if apart else ():
            add(Kind.SPLIT, task, self.split)
        for task in new.values():
            add(Kind.WALK, task, self.walk, *([Kind.SPLIT] if apart else []), away=means.elsewhere is not None)
        for task in self.tasks if means.check is not None else ():
            if task.export is not None:
                add(Kind.CHECK, task, self.check, Kind.WALK)
        return jobs

    def _is_new(self, task: Task) -> bool:
        """Whether a model's ops are to be announced before its goldens are made."""
        return bool(task.kept) and not task.missing and not export_folder.complete(Path(task.folder))

    def split(self, task: Task, turn: Turn) -> None:
        """Exports a model and announces its ops."""
        began = clocks.awake()
        self._attempt(task, turn, lambda making: make(replace(making, only_split=True)))
        self._spent[task.name] = clocks.awake() - began

    def walk(self, task: Task, turn: Turn) -> None:
        """Makes a model's export folder, unless it is complete. Raises InputError."""
        if task.name in self.outcomes:  # it failed when it was split
            return
        folder, claims = Path(task.folder), self._means.claims
        cached = _claimed(folder, claims)
        outcome = self._attempt(task, turn, lambda making: _manifest(making, claims))
        if isinstance(outcome, ModelFailure):
            return
        self.outcomes[task.name] = outcome
        export_folder.mark_used(folder)
        if task.name in self.exports:
            self.exports[task.name].is_complete(folder)
        turn.report({"event": "done", "model": task.name, "export_dir": task.folder, "cached": cached})

    def check(self, task: Task, turn: Turn) -> None:
        """Holds a model to its framework, if it is prepared."""
        if self._means.check is not None and not isinstance(self.outcomes[task.name], ModelFailure):
            self._checks[task.name] = self._means.check(task, Path(task.folder), self._means.slots, turn)

    def _attempt(self, task: Task, turn: Turn, work: Callable[[Making], T]) -> T | ModelFailure:
        """What some work on a model returns, or why it came to nothing. Raises InputError."""
        means = self._means
        allowance = self._request.allowance(turn.check, self._spent.get(task.name, 0.0), means.slots)
        try:
            if task.missing:
                raise ExportFailed("", task.missing, "")
            growing = self.exports.get(task.name)
            return work(Making(task, allowance, turn.report, means.at_once, False, means.elsewhere, growing))
        except ExportFailed as error:
            status = ModelStatus(f"{error.stage}_failed") if error.stage else ModelStatus.FRAMEWORK_MISSING
            failure = _failure(task, status, error.error, error.trace, means.artifacts)
        except Unpreparable as error:
            failure = _failure(task, ModelStatus.PREPARE_FAILED, str(error), "", means.artifacts)
        except BudgetSpent as error:
            reason = f"budget: it was at {error} when the time of --budget was over"
            failure = _failure(task, ModelStatus.NOT_RUN, reason, "", means.artifacts)
        except Killed as error:
            failure = _failure(task, ModelStatus.NOT_RUN, str(error), "", means.artifacts)
        except ModelRefused as error:
            known = task.name in self.exports and self.exports[task.name].manifest is not None
            if len(self.tasks) == 1 and not known:  # what is wrong with it is bad input
                raise
            status = ModelStatus.EXPORT_FAILED if allowance.step == EXPORT else ModelStatus.PREPARE_FAILED
            failure = _failure(task, status, str(error), "", means.artifacts)
        self.outcomes[task.name] = failure
        reason = f"{failure.status.value}: {failure.error}"
        cut_off = failure.status is ModelStatus.NOT_RUN
        if task.name in self.exports:
            self.exports[task.name].fails(reason, cut_off)
        turn.report({"event": "failed", "model": task.name, "status": failure.status.value, "error": failure.error})
        return failure


def _failure(task: Task, status: ModelStatus, error: str, trace: str, artifacts: Path | None) -> ModelFailure:
    """The row of a model that was not prepared; its traceback becomes a file where there is one and a place for it."""
    artifact = None
    if trace and artifacts is not None:
        artifact = f"{artifacts.name}/{store.MODELS_DIR}/{run_folders.file_name(task.name)}.txt"
        try:
            place = inside(artifacts.parent, artifact)
        except OSError as leaving:
            raise store.refused(artifacts.parent / artifact, leaving) from leaving
        store.write_whole(place, trace)
    framework = task.export.framework if task.export else ""
    return ModelFailure(model=task.name, framework=framework, status=status, error=as_text(error), artifact=artifact)


def _claimed(folder: Path, claims: Claims | None) -> bool:
    """Whether an export folder is complete, and now claimed. A damaged one is removed."""
    if not export_folder.complete(folder):
        return False
    if claims is not None:
        claims.hold(folder)
    return export_folder.intact(folder)


def _writable(task: Task, claims: Claims) -> Task:
    """The task, with a folder that its claims hold if a read-only cache lacks the model or has it damaged."""
    cache = Path(str(task.request.cache_dir))
    if not export_folder.read_only(cache):
        return task
    damage.say(f"{cache} is read-only: nothing is kept in it")
    folder = Path(task.folder)
    try:
        stored.check_sizes(folder)
        export_folder.read_manifest(folder)
        return task
    except Damaged as error:
        if export_folder.complete(folder):
            damage.say(f"{error.where}: {error.state}; {task.name} is prepared for this run alone")
    return _for_this_run(task, claims)


def _for_this_run(task: Task, claims: Claims) -> Task:
    """The task with a folder that exists for as long as its claims."""
    return replace(task, folder=str(claims.temporary() / "exports" / Path(task.folder).name))


def _manifest(making: Making, claims: Claims | None) -> Manifest:
    """The manifest of one model, whose export folder is made if it does not exist or is damaged."""
    folder = Path(making.task.folder)
    while True:
        while not _claimed(folder, claims):  # again where somebody clears up just now
            make(making)
        try:
            manifest = export_folder.read_manifest(folder)
            whole_rows([folder])  # workflow `full` reads them later
            for line in (line for lines in manifest[0].notes.values() for line in lines):
                damage.say(line)
            return manifest
        except Damaged as error:
            export_folder.discard(folder, error)


def mend(request: Preparation, row: OpRow, error: Damaged, claims: Claims) -> tuple[OpRow, str]:
    """The row of an op of which a lane found a file damaged, and the export folder where its model is whole again.

    That is the folder that was damaged; for a cache that is read-only, one that the claims hold. Of several processes
    that find damage in a cache, one after the other mends it. Raises Damaged if that cannot be done.
    """
    task = next((task for task in tasks(request) if task.name == row.uses[0].model), None)
    if task is not None and _was_growing(Path(error.where), Path(task.folder)):
        if not export_folder.intact(Path(task.folder)):
            raise error  # the export has failed
    elif task is None or not Path(error.where).is_relative_to(task.folder):
        raise error  # its sources have changed since, so another folder would be made
    if export_folder.read_only(Path(str(task.request.cache_dir))):
        damage.say(f"{error.where}: {error.state}; {task.name} is prepared for this run alone")
        task = _for_this_run(task, claims)
    folder = Path(task.folder)
    with alone_in(folder.parent):
        try:
            try:
                if export_folder.intact(folder):
                    for path in export_folder.files_of(row):
                        stored.checked(folder, path)
            except Damaged as still:
                export_folder.discard(folder, still)
            _, rows = _manifest(Making(task, request.allowance(), lambda event: None), claims)
        except (ExportFailed, Unpreparable, BudgetSpent, Killed, InputError) as failed:
            raise Damaged(error.where, f"{error.got}, and {task.name} cannot be prepared again: {failed}") from None
    mended = next((other for other in rows if other.op_id == row.op_id), None)
    if mended is None:
        raise error
    # A model's own row lists its own uses; those in other models stay.
    return mended.model_copy(update={"uses": row.uses}), task.folder


def _was_growing(where: Path, folder: Path) -> bool:
    """Whether a file was below an export under construction, beside which `folder` is or will be."""
    exports = folder.parent
    return where.is_relative_to(exports) and where.relative_to(exports).parts[0].startswith(upkeep.UNFINISHED)
