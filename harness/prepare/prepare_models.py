"""Parent side of preparing a run: models in, manifest out; all heavy work happens in child processes.

`prepare` finds each model's export folder in the cache, or has an exporter make the StableHLO
(`opscope.harness.prepare.exporting`) and a child the rest (split, golden walk). This file imports neither jax nor
numpy: pytest processes call it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from opscope.base import damage, stored
from opscope.base.children.side_by_side import LOOK, Stopped, Turn, side_by_side
from opscope.base.children.slots import SlotFile
from opscope.base.children.temporary_folder import TemporaryFolder
from opscope.base.damage import Damaged
from opscope.base.file_names import as_text
from opscope.base.inner_path import inside
from opscope.harness.cache import export_folder, growing_export, upkeep
from opscope.harness.cache.claims import Claims, alone_in
from opscope.harness.prepare.allowance import EXPORT, BudgetSpent, ModelRefused
from opscope.harness.prepare.exporting import ExportFailed
from opscope.harness.prepare.make_folder import Elsewhere, Event, Making, Unpreparable, make
from opscope.harness.prepare.preparation import Preparation, Task, request_of, tasks
from opscope.harness.prepare.whole_manifest import whole_rows
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import ManifestHeader, ModelFailure, OpRow
from opscope.harness.record.stages import ModelStatus

Manifest = tuple[ManifestHeader, list[OpRow]]
SLOTS = "slots"
"""Name of the file of slots in which processes work."""
MOST_ELSEWHERE = 64
"""Models that are walked elsewhere at once, each of which has a thread here that waits."""
PAUSE = 0.1
"""Seconds between two looks at whether a model is split."""
T = TypeVar("T")


def prepare(
    request: Preparation | Mapping[str, Any],
    on_event: Callable[[Event], None] | None = None,
    claims: Claims | None = None,
    artifacts: Path | None = None,
    at_once: int = 1,
) -> tuple[ManifestHeader, list[OpRow]]:
    """Prepares all models of the request, `at_once` of them side by side, and merges their manifests by op id.

    A row that several models share keeps the files and the chosen use of the first; uses are joined. The export folders
    stay for as long as `claims` holds them. A model that is not prepared is in the header's `failed`, its traceback in
    a file below `artifacts`. Raises InputError for an unknown model, a single file that is no StableHLO, a request of
    which no model has its framework here, a cache that cannot be written.
    """
    request = request if isinstance(request, Preparation) else request_of(request)
    claims = claims or Claims()
    on_event = on_event or (lambda event: None)
    with TemporaryFolder("prepare") as folder:
        slots = (str(Path(folder) / SLOTS), at_once) if at_once > 1 else None
        return merge_all(Models(request, on_event, claims, artifacts, at_once, slots=slots).prepared())


def merge_all(results: Sequence[Manifest | ModelFailure]) -> Manifest:
    """One manifest of all models' own, whose header has the models that failed."""
    header, rows = merge([result for result in results if not isinstance(result, ModelFailure)])
    failed = tuple(result for result in results if isinstance(result, ModelFailure))
    return header.model_copy(update={"failed": failed}), rows


class Models:
    """The models of a request, prepared side by side."""

    def __init__(
        self,
        request: Preparation,
        report: Callable[[Event], None],
        claims: Claims,
        artifacts: Path | None,
        at_once: int,
        announcements: Path | None = None,
        stop: Callable[[], bool] = lambda: False,
        slots: SlotFile | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """With `announcements`, a folder, each model's ops are announced there before its goldens are made, and none is
        evaluated before the split of each has begun. `stop` says when to end. Each process that prepares works in one
        of `slots`, so that a model may have several. With `elsewhere`, models are walked there while others are split,
        and `report` is called on several threads. Raises InputError as `prepare` does."""
        self._report, self._stop, self._elsewhere = report, stop, elsewhere
        self.tasks = [_writable(task, claims) for task in tasks(request)]
        if all(task.missing for task in self.tasks):
            missing, _, hint = self.tasks[0].missing.partition("; try ")
            raise InputError(f"--model {self.tasks[0].name}", "its framework to be installed", missing, hint)
        if announcements is not None:
            self.tasks = [
                replace(
                    task,
                    announcements=str(announcements / f"{number}.jsonl"),
                    kept=str(announcements / f"{number}.split"),
                )
                for number, task in enumerate(self.tasks)
            ]
        self._at_once = min(at_once, len(self.tasks))
        self._one = _OneModel(
            request, claims, artifacts, self._at_once, alone=len(self.tasks) == 1, slots=slots, elsewhere=elsewhere
        )

    def outcome(self, model: str) -> Manifest | ModelFailure | None:
        """What became of a model; None as long as it is under way."""
        return self._one.outcomes.get(model)

    def prepared(self) -> list[Manifest | ModelFailure]:
        """Prepares the models and returns what became of each. Raises InputError, or Stopped where `stop` says so."""
        self._report({"event": "models", "total": len(self.tasks)})
        unmade = [
            task
            for task in self.tasks
            if task.announcements and not task.missing and not export_folder.complete(Path(task.folder))
        ]
        if unmade:  # ops run once those of all models are known: first what takes no time
            self._side_by_side(self._one.prepared, [task for task in self.tasks if task not in unmade])
        if self._elsewhere is not None and unmade:
            return self._walked_elsewhere(unmade)
        if len(unmade) > self._at_once:
            first_split = _FirstSplit(self._one)
            self._side_by_side(first_split.split, unmade, [first_split.walk] * len(unmade))
        return self._side_by_side(self._one.prepared, self.tasks)

    def _walked_elsewhere(self, unmade: Sequence[Task]) -> list[Manifest | ModelFailure]:
        """As `prepared`: models are split here, in their order, while those that are split are walked elsewhere."""
        known = {task.name: threading.Event() for task in unmade}
        over = threading.Event()
        """Whether one of both sides has raised."""

        def split(task: Task, turn: Turn) -> None:
            self._one.split(task, turn)
            known[task.name].set()

        def prepared(task: Task, turn: Turn) -> Manifest | ModelFailure:
            while task.name in known and not known[task.name].wait(PAUSE):
                turn.check()
            turn.check()
            return self._one.prepared(task, turn)

        def stop() -> bool:
            return over.is_set() or self._stop()

        def end(splits: Future[Any]) -> None:
            if splits.exception() is not None:
                over.set()

        with ThreadPoolExecutor(1, thread_name_prefix="splits") as pool:
            splits = pool.submit(self._side_by_side, split, unmade, stop=stop)
            splits.add_done_callback(end)
            try:
                # Their memory is not this machine's, but that of children which split, whom the other side watches.
                most = min(MOST_ELSEWHERE, len(self.tasks))
                return self._side_by_side(prepared, self.tasks, at_once=most, stop=stop, memory=sys.maxsize)
            except Stopped:
                if not self._stop():
                    splits.result()  # raises what has ended it
                raise
            finally:
                over.set()

    def _side_by_side(
        self,
        job: Callable[[Task, Turn], Any],
        named: Sequence[Task],
        after: Sequence[Callable[[Turn], Any]] = (),
        at_once: int | None = None,
        stop: Callable[[], bool] | None = None,
        memory: int | None = None,
    ) -> list[Any]:
        """What a job makes of each task, and then what jobs `after` them return, which begin when all have begun."""

        def postponed(number: int) -> None:
            if number < len(named):
                waits = {"event": "stage", "stage": "waiting for memory", "done": 0, "total": 1}
                self._report({**waits, "model": named[number].name})

        jobs = [*(partial(job, task) for task in named), *after]
        return side_by_side(jobs, at_once or self._at_once, self._report, postponed, memory, stop or self._stop)


class _FirstSplit:
    """Splits models, and has those evaluated that are split by whoever has no other left to split.

    So no model's goldens wait for the slowest split of another.
    """

    def __init__(self, one: _OneModel) -> None:
        self._one = one
        self._split: list[Task] = []
        """Models that are split and that nobody evaluates."""
        self._seen: set[str] = set()
        """Models whose split has ended, if only for the first time."""
        self._news = threading.Condition()

    def split(self, task: Task, turn: Turn) -> None:
        """Announces a model's ops. One that is stopped for want of memory may be evaluated before it is split."""
        try:
            if task.name not in self._one.outcomes:
                self._one.split(task, turn)
        finally:
            if task.name not in self._seen:
                self._seen.add(task.name)
                self._add(task)

    def walk(self, turn: Turn) -> None:
        """Evaluates a model once it is split."""
        with self._news:
            while not self._split:
                self._news.wait(LOOK)
                turn.check()
            task = self._split.pop(0)
        try:
            self._one.prepared(task, turn)
        except Stopped:
            self._add(task)
            raise

    def _add(self, task: Task) -> None:
        with self._news:
            self._split.append(task)
            self._news.notify()


@dataclass(frozen=True)
class _OneModel:
    """Prepares one model of a request at a time, on any thread."""

    request: Preparation
    claims: Claims
    artifacts: Path | None
    at_once: int
    alone: bool
    """Whether the request has only this model, so that what is wrong with it is bad input."""
    slots: SlotFile | None = None
    elsewhere: Elsewhere | None = None
    outcomes: dict[str, Manifest | ModelFailure] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds that a model has taken that was only split."""

    def split(self, task: Task, turn: Turn) -> None:
        """Exports a model and announces its ops."""
        began = time.monotonic()
        self._attempt(task, turn, lambda making: make(replace(making, only_split=True)))
        self.spent[task.name] = time.monotonic() - began

    def prepared(self, task: Task, turn: Turn) -> Manifest | ModelFailure:
        """The manifest of a model, or why there is none. Raises InputError."""
        if task.name in self.outcomes:  # it failed when it was split, or nothing was to be made of it
            return self.outcomes[task.name]
        folder = Path(task.folder)
        cached = _claimed(folder, self.claims)
        outcome = self._attempt(task, turn, lambda making: _manifest(making, self.claims))
        if isinstance(outcome, ModelFailure):
            return outcome
        self.outcomes[task.name] = outcome
        export_folder.mark_used(folder)
        # Where another run has made what this one has split, lanes wait for it too.
        if not cached or (task.announcements and Path(task.announcements).exists()):
            _announce(task, lambda announcer: announcer.complete(folder))
        turn.report({"event": "done", "model": task.name, "export_dir": task.folder, "cached": cached})
        return outcome

    def _attempt(self, task: Task, turn: Turn, work: Callable[[Making], T]) -> T | ModelFailure:
        """What some work on a model returns, or why it came to nothing. Raises InputError."""
        allowance = self.request.allowance(turn.check, self.spent.get(task.name, 0.0), self.slots)
        try:
            if task.missing:
                raise ExportFailed("", task.missing, "")
            return work(Making(task, allowance, turn.report, self.at_once, elsewhere=self.elsewhere))
        except ExportFailed as error:
            status = ModelStatus(f"{error.stage}_failed") if error.stage else ModelStatus.FRAMEWORK_MISSING
            failure = _failure(task, status, error.error, error.trace, self.artifacts)
        except Unpreparable as error:
            failure = _failure(task, ModelStatus.PREPARE_FAILED, str(error), "", self.artifacts)
        except BudgetSpent as error:
            reason = f"budget: it was at {error} when the time of --budget was over"
            failure = _failure(task, ModelStatus.NOT_RUN, reason, "", self.artifacts)
        except ModelRefused as error:
            if self.alone:
                raise
            status = ModelStatus.EXPORT_FAILED if allowance.step == EXPORT else ModelStatus.PREPARE_FAILED
            failure = _failure(task, status, str(error), "", self.artifacts)
        self.outcomes[task.name] = failure
        reason = f"{failure.status.value}: {failure.error}"
        cut_off = failure.status is ModelStatus.NOT_RUN
        _announce(task, lambda announcer: announcer.cut_off(reason) if cut_off else announcer.failed(reason))
        turn.report({"event": "failed", "model": task.name, "status": failure.status.value, "error": failure.error})
        return failure


def _announce(task: Task, say: Callable[[growing_export.Announcer], None]) -> None:
    """Says how a model's preparation ended, to those who wait for its goldens. Raises InputError."""
    if task.announcements:
        path = Path(task.announcements)
        try:
            say(growing_export.Announcer(path))
        except OSError as error:
            raise store.refused(path, error) from error


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
            damage.say(f"{error.where}: damaged ({error.got}); {task.name} is prepared for this run alone")
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
        damage.say(f"{error.where}: damaged ({error.got}); {task.name} is prepared for this run alone")
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
        except (ExportFailed, Unpreparable, BudgetSpent, InputError) as failed:
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


def merge(manifests: Sequence[tuple[ManifestHeader, list[OpRow]]]) -> tuple[ManifestHeader, list[OpRow]]:
    """One manifest of several: rows in order of first appearance, uses of equal ops joined."""
    rows: dict[str, OpRow] = {}
    for _, of_model in manifests:
        for row in of_model:
            earlier = rows.get(row.op_id)
            rows[row.op_id] = row if earlier is None else earlier.model_copy(update={"uses": earlier.uses + row.uses})
    headers = [header for header, _ in manifests]
    header = ManifestHeader(
        models=tuple(m for h in headers for m in h.models),
        export_dirs=tuple(d for h in headers for d in h.export_dirs),
        module_ops={m: n for h in headers for m, n in h.module_ops.items()},
        structural={m: n for h in headers for m, n in h.structural.items()},
    )
    return header, list(rows.values())
