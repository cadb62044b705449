"""Runs exporters, each model in a process of its own, and keeps their StableHLO by source and framework version.

A kept export is a folder `modules/<key>/` of the cache with what `opscope.models.frontends.child` wrote. Imported by
pytest processes: no framework is imported here.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base import clocks, damage, stored
from opscope.base.atomic_write import new_folder
from opscope.base.children.call import Outcome, call
from opscope.base.children.ending import Cause, ChildEnded, Ending
from opscope.base.damage import Damaged
from opscope.base.digest import file_digest, files_digest, json_digest, words_digest
from opscope.base.xla import xla_releases
from opscope.harness.cache import export_folder, made_of, upkeep
from opscope.harness.cache.claims import Claims
from opscope.harness.cache.json_store import JsonStore
from opscope.harness.cache.made_of import new_run
from opscope.harness.prepare import interpreters
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, Killed, ModelRefused
from opscope.harness.prepare.interpreters import Interpreter
from opscope.harness.prepare.turn import Stopped
from opscope.models import frontends
from opscope.models.frontends import own_results, packages_ahead
from opscope.models.frontends.base import Source

if TYPE_CHECKING:
    from opscope.base.children.child import ChildOptions

EXPORTER = "opscope.models.frontends.child:export"
"""What an exporter's process runs."""
EXPORTED = "exported"
"""The event after which an exporter's process has nothing left to do but to run the model in its framework."""
BESIDE = 16
"""A model whose arguments take more than this part of the memory limit runs in its framework before its walk, and not
beside it: both hold them, and results."""
OWN_SHARE = 1 / 3
"""Share of the time left to a model that its own framework may take: the golden walk needs the rest."""
SHARE_BESIDE = 2 / 3
"""The same beside the walk, which needs none of that time, but maybe the processor."""


@dataclass(frozen=True)
class Export:
    """The request for one export."""

    framework: str
    source: Source
    files: tuple[str, ...]
    """The files that the model depends on, the exporter's own among them."""
    python: Interpreter | None = None
    """The user's own interpreter, in which it is exported; None for this one."""
    reader: str = ""
    """The release of jaxlib that reads its StableHLO, where that may be another than the exporter's."""

    run: str = field(default_factory=new_run)
    """The name of the run that makes it, where no kept one can be used."""

    def key(self, cache: Path) -> str:
        """Name of the folder of the export: that of a kept one whose list holds, else one that is this run's alone."""
        request, lists, scope = self.request_key(), _lists(cache, self.run), self.scope(cache)
        for kept in (_exports(cache).get(request) or {}).get("exports", ()):
            if not lists.changed([kept["list"]], scope):
                return str(kept["name"])
        return words_digest(request, self.run, digits=20)

    def scope(self, cache: Path) -> made_of.Scope:
        """What counts of that which its exporter reads."""
        path = self.source.path
        return made_of.scope_of(path, str(cache), declared=made_of.declared_in(path))

    def request_key(self) -> str:
        """A digest of what is known without an exporter: the model's source, the request and the framework."""
        # The place of a model's file is not part of what it is.
        source = {**asdict(self.source), "path": Path(self.source.path).name, "inputs": bool(self.source.inputs)}
        elsewhere = interpreters.installed_in(self.python)
        versions = frontends.versions(self.framework, Path(self.source.path), **elsewhere)
        flags = xla_releases.flags()  # of its own results
        request = {"framework": self.framework, "asked": source, "versions": versions, "flags": flags}
        if self.python is not None:
            request["python"] = self.python.version
        if self.reader:
            request["reader"] = self.reader
        return words_digest(*(_digest(Path(file)) for file in self.files), json_digest(request), digits=20)


MAX_KILLS = 3
"""How often an exporter is started anew that somebody has killed."""


class ExportFailed(Exception):
    """A model did not get through its exporter."""

    def __init__(self, stage: str, error: str, trace: str) -> None:
        super().__init__(error)
        self.stage, self.error, self.trace = stage, error, trace


def _digest(path: Path) -> str:
    """The digest of a file, or of all files of a folder (a SavedModel)."""
    if not path.is_dir():
        return file_digest(path)
    return files_digest(sorted(inner for inner in path.rglob("*") if inner.is_file()), root=path)


@dataclass(frozen=True)
class Own:
    """The request for a model's results in its own framework, beside its export."""

    seed: int
    cap: int
    """Bytes of all arguments together, above which there are none."""


def exported(
    export: Export,
    cache: Path,
    max_cache: int,
    claims: Claims,
    allowance: Allowance | None = None,
    own: Own | None = None,
) -> Path:
    """The folder with the export, made if it does not exist. It is kept for as long as `claims` holds it.

    Where it is made, the model also runs in its framework, if `own` asks for that and the values are known already.

    An exporter that takes more than `allowance` (default: a new one) is ended. Raises ExportFailed for what the model
    or its framework raises, ModelRefused for what the exporter refuses, BudgetSpent, Killed, or InputError for a cache
    that cannot be written.
    """
    folder = _folder(export, cache)
    while not _claimed(folder, claims):  # again if another process is just clearing the cache
        with _made(export, folder, max_cache, allowance or Allowance(), own):
            pass
    export_folder.mark_used(folder)
    return folder


@contextlib.contextmanager
def exported_first(
    export: Export, cache: Path, max_cache: int, claims: Claims, allowance: Allowance, own: Own | None = None
) -> Iterator[Path]:
    """A folder with the export, for as long as the context lasts. Meanwhile the model may run in its framework.

    The context ends when that has ended too, and the export is in the cache. Raises what `exported` raises.
    """
    folder = _folder(export, cache)
    if _claimed(folder, claims):
        export_folder.mark_used(folder)
        yield folder
    else:
        with _made(export, folder, max_cache, allowance, own) as temporary:
            yield temporary


def is_kept(export: Export, cache: Path) -> bool:
    """Whether an export is in the cache, as far as can be known without reading it."""
    return stored.is_sealed_folder(_folder(export, cache))


def twin(export: Export, folder: Path, cache: Path) -> str:
    """The name of a kept export of the same request that is alike, byte for byte, to the one in `folder`; empty if
    there is none. The results of the model's own framework have no part in it."""
    files: dict[str, stored.FileMark] = {}
    for kept in (_exports(cache).get(export.request_key()) or {}).get("exports", ()):
        with contextlib.suppress(Damaged, OSError):
            old = stored.marks(cache / "modules" / str(kept["name"]))
            files = files or {path: stored.mark_of(folder / path) for path in own_results.all_but(stored.files(folder))}
            if old is not None and {path: old[path] for path in own_results.all_but(old)} == files:
                return str(kept["name"])
    return ""


def _folder(export: Export, cache: Path) -> Path:
    return cache / "modules" / export.key(cache)


def _exports(cache: Path) -> JsonStore:
    """Request of an export -> its kept ones, the newest first, each with its list."""
    return JsonStore(cache / made_of.REQUESTS)


@lru_cache(maxsize=4)
def _lists(cache: Path, run: str) -> made_of.Lists:
    """The lists of a cache, as a run may use them."""
    return made_of.Lists(cache)


def _keep_list(export: Export, folder: Path, report: Mapping[str, Any] | None) -> None:
    """Has later runs use an export as long as all that it was made from stays as it was."""
    cache = folder.parent.parent
    made = made_of.made(report, export.scope(cache))
    if made.unseen:
        damage.say(f"{export.source.name}: its export is not kept: {made.unseen}")
        return
    request, entry = export.request_key(), {"list": made_of.Lists(cache).keep(made), "name": folder.name}
    earlier = [each for each in (_exports(cache).get(request) or {}).get("exports", ()) if each != entry]
    _exports(cache).put(request, {"exports": [entry, *earlier[: made_of.MOST - 1]]})


def _claimed(folder: Path, claims: Claims) -> bool:
    """Whether an export is complete and undamaged, and now claimed. Reads all of it."""
    if not stored.is_sealed_folder(folder):
        return False
    claims.hold(folder)
    try:
        stored.check_all(folder)
    except Damaged as error:
        export_folder.discard(folder, error)
        return False
    return True


@contextlib.contextmanager
def _made(export: Export, folder: Path, max_cache: int, allowance: Allowance, own: Own | None) -> Iterator[Path]:
    """Runs an exporter that makes `folder`: a temporary one with the export, until the context ends."""
    place = export_folder.make_dir(folder.parent)
    upkeep.trim(folder.parent.parent, max_cache, every=upkeep.EVERY_SECONDS)
    try:
        temporary = new_folder(place, upkeep.UNFINISHED)
    except OSError as error:
        raise export_folder.unwritable(place, error) from None
    claims = Claims()
    claims.hold(temporary)
    try:
        exporter = _Exporter(export, temporary, allowance, own)
        try:
            exporter.wait_for_export()
            try:
                yield temporary
            except Stopped:
                raise
            except Exception:  # whatever has failed meanwhile, the export is whole
                report = exporter.wait()
                with contextlib.suppress(OSError):
                    export_folder.publish(temporary, folder)
                    _keep_list(export, folder, report)
                raise
            report = exporter.wait()
            export_folder.publish(temporary, folder)
            _keep_list(export, folder, report)
        finally:
            exporter.close()
    finally:
        claims.close()
        shutil.rmtree(temporary, ignore_errors=True)


class _Exporter:
    """An exporter at work, on a thread of its own."""

    def __init__(self, export: Export, folder: Path, allowance: Allowance, own: Own | None) -> None:
        self._stop = threading.Event()
        self._small = allowance.memory // BESIDE
        self._bytes = queue.SimpleQueue[int]()
        """The size of all arguments, once the export is complete."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="exporter")

        def check() -> None:
            allowance.check()
            if self._stop.is_set():
                raise Stopped

        def take_size(size: int) -> float:
            self._bytes.put(size)
            return SHARE_BESIDE if size <= self._small else OWN_SHARE

        self._end = self._pool.submit(run_exporter, export, folder, allowance, own, take_size, check)
        self._end.add_done_callback(lambda end: self._bytes.put(0))

    def wait_for_export(self) -> None:
        """Waits for the export, and longer where the model's values are so large that nothing may run beside it.

        Raises what the exporter raises.
        """
        size = self._bytes.get()
        if self._end.done() or size > self._small:
            self.wait()

    def wait(self) -> Mapping[str, Any] | None:
        """Waits until the exporter has ended; returns what it has read. Raises what it raises."""
        return self._end.result()

    def close(self) -> None:
        """Ends the exporter if it still runs."""
        self._stop.set()
        self._pool.shutdown()


def run_exporter(
    export: Export,
    folder: Path,
    allowance: Allowance,
    own: Own | None = None,
    on_export: Callable[[int], float] = lambda size: OWN_SHARE,
    check: Callable[[], None] | None = None,
) -> Mapping[str, Any] | None:
    """Runs one exporter until it ends; returns what it has read, or None where that is not all: a limit, or somebody,
    has ended it. Raises ExportFailed, ModelRefused, BudgetSpent or Killed, and InputError where the disk is full.

    `on_export` gets the bytes of all arguments once the export is complete and the framework begins to run the model,
    and says which share of the time it may take for that.
    `check` is called while the exporter works (default: that of the allowance), and raises what is to end it.
    """
    heard = _Heard(allowance, on_export, check or allowance.check)
    task = {"framework": export.framework, **asdict(export.source), "folder": str(folder), "slots": allowance.slots}
    if own is not None:
        task["own"] = asdict(own)
    if export.reader:
        task["reader"] = export.reader
    outcome, kills = _called(export, task, heard), 1
    while outcome.ending.from_outside and not heard.exported and kills <= MAX_KILLS and allowance.left():
        outcome, kills = _called(export, task, heard), kills + 1
    if not heard.exported:
        heard.raise_why_not(outcome, folder)
        return None
    # What somebody has killed says nothing: the model runs once more, for the check of its import.
    if own is not None and not outcome.ending.ok and not outcome.ending.from_outside:
        why = allowance.reason(outcome.ending, "its own framework", outcome.log.last_line())
        own_results.note(folder, own.seed, why, outcome.ending.crashed)
    return None if outcome.ending.cut_short else heard.report


class _Heard:
    """What an exporter has said, and how long it may go on."""

    def __init__(self, allowance: Allowance, on_export: Callable[[int], float], check: Callable[[], None]) -> None:
        self.allowance, self._on_export, self._check = allowance, on_export, check
        self.report: Mapping[str, Any] | None = None
        """What it has read."""
        self._last: dict[str, Any] = {"event": "stage", "stage": "build"}
        self._until = math.inf
        """When the time is over that its own framework may take."""

    @property
    def exported(self) -> bool:
        """Whether the export is complete."""
        return self._last["event"] == EXPORTED

    def take(self, event: dict[str, Any]) -> None:
        """Takes one of its messages."""
        if event["event"] == "read":
            self.report = self.report if event["report"] is None else event["report"]
            return
        self._last.update(event)
        if self.exported:
            share = self._on_export(int(event.get("bytes") or 0))
            self._until = min(self._until, clocks.awake() + share * self.allowance.left())

    def watch(self) -> None:
        """Raises what is to end it."""
        self._check()
        if clocks.awake() > self._until:
            raise ChildEnded(Ending(Cause.TIMEOUT, "took its share of the time"))

    def raise_why_not(self, outcome: Outcome, folder: Path) -> None:
        """Raises why there is no export in `folder`, if the exporter or its end says so."""
        last, allowance = self._last, self.allowance
        if last["event"] == "refused":
            raise ModelRefused(last["where"], last["expected"], last["got"], last["hint"])
        if last["event"] == "failed":
            if export_folder.NO_ROOM.search(last["error"]):  # no fault of the model's
                raise export_folder.unwritable(folder.parent, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            raise ExportFailed(last["stage"], last["error"], last["traceback"])
        if outcome.ending.ok:
            return
        if allowance.budget_is_spent:
            raise BudgetSpent(str(last["stage"]))
        error = allowance.reason(outcome.ending, str(last["stage"]), outcome.log.last_line())
        if outcome.ending.from_outside:
            raise Killed(error)
        raise ExportFailed(str(last["stage"]), error, outcome.log.tail(1000))


def _called(export: Export, task: dict[str, Any], heard: _Heard) -> Outcome:
    """One exporter, from its start to its end."""
    frontend, own_python = frontends.get(export.framework), export.python is not None
    forks: ChildOptions = {} if own_python else packages_ahead.fork_options(frontend, Path(export.source.path))
    with interpreters.calling(export.python, frontend.environment) as how:
        options: ChildOptions = {**how, **forks}
        return call(
            EXPORTER,
            task,
            seconds=heard.allowance.left(),
            memory=heard.allowance.memory,
            on_message=heard.take,
            watch=heard.watch,
            **options,
        )
