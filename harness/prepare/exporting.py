"""Runs exporters, each model in a process of its own, and keeps their StableHLO by source and framework version.

A kept export is a folder `modules/<key>/` of the cache with what `opscope.models.frontends.child` wrote. Imported by
pytest processes: no framework is imported here.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from opscope.base import stored
from opscope.base.children.call import call
from opscope.base.children.ending import Cause, ChildEnded, Ending
from opscope.base.damage import Damaged
from opscope.base.digest import file_digest, files_digest, json_digest, words_digest
from opscope.harness.cache import export_folder, upkeep
from opscope.harness.cache.claims import Claims
from opscope.harness.prepare.allowance import Allowance, BudgetSpent, ModelRefused
from opscope.models import frontends
from opscope.models.frontends import own_results, packages_ahead
from opscope.models.frontends.base import Source

EXPORTED = "exported"
"""The event after which an exporter's process has nothing left to do but to run the model in its framework."""
OWN_SHARE = 1 / 3
"""Share of the time left to a model that its own framework may take: the golden walk needs the rest."""


@dataclass(frozen=True)
class Export:
    """The request for one export."""

    framework: str
    source: Source
    files: tuple[str, ...]
    """The files that the model depends on, the exporter's own among them."""

    def key(self) -> str:
        """Name of the folder of the export: the model's source, the request, the exporter and its framework."""
        # The place of a model's file is not part of what it is.
        source = {**asdict(self.source), "path": Path(self.source.path).name, "inputs": bool(self.source.inputs)}
        versions = frontends.versions(self.framework, Path(self.source.path))
        request = {"framework": self.framework, "asked": source, "versions": versions}
        return words_digest(*(_digest(Path(file)) for file in self.files), json_digest(request), digits=20)


class ExportFailed(Exception):  # noqa: N818 - the outcome of one model, not an error of ours
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
    export: Export, cache: Path, max_cache: int, claims: Claims, allowance: Allowance | None = None,
    own: Own | None = None,
) -> Path:  # fmt: skip
    """The folder with the export, made if it does not exist. It is kept for as long as `claims` holds it.

    Where it is made, the model also runs in its framework, if `own` asks for that and the values are known already.

    An exporter that takes more than `allowance` (default: a new one) is ended. Raises ExportFailed for what the model
    or its framework raises, ModelRefused for what the exporter refuses, BudgetSpent, InputError for a cache that cannot
    be written.
    """
    folder = cache / "modules" / export.key()
    while not _claimed(folder, claims):  # again if another process is just clearing the cache
        _make(export, folder, max_cache, allowance or Allowance(), own)
    export_folder.mark_used(folder)
    return folder


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


def _make(export: Export, folder: Path, max_cache: int, allowance: Allowance, own: Own | None) -> None:
    """Runs an exporter that makes `folder`."""
    place = export_folder.make_dir(folder.parent)
    upkeep.trim(folder.parent.parent, max_cache, every=upkeep.EVERY_SECONDS)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=upkeep.UNFINISHED, dir=place))
    except OSError as error:
        raise export_folder.unwritable("cache folder", place, error) from None
    claims = Claims()
    claims.hold(temporary)
    try:
        run_exporter(export, temporary, allowance, own)
        export_folder.publish(temporary, folder)
    finally:
        claims.close()
        shutil.rmtree(temporary, ignore_errors=True)


def run_exporter(export: Export, folder: Path, allowance: Allowance, own: Own | None = None) -> None:
    """Runs one exporter until it ends. Raises ExportFailed, ModelRefused or BudgetSpent."""
    task = {"framework": export.framework, **asdict(export.source), "folder": str(folder)}
    if own is not None:
        task["own"] = asdict(own)
    last: dict[str, Any] = {"event": "stage", "stage": "build"}
    until: list[float] = []

    def take(event: dict[str, Any]) -> None:
        last.update(event)
        if event["event"] == EXPORTED:
            until.append(time.monotonic() + OWN_SHARE * allowance.left())

    def watch() -> None:
        allowance.check()
        if until and time.monotonic() > until[0]:
            raise ChildEnded(Ending(Cause.TIMEOUT, "took its share of the time"))

    frontend = frontends.get(export.framework)
    outcome = call(
        "opscope.models.frontends.child:export", task, seconds=allowance.left(), memory=allowance.memory,
        on_message=take, watch=watch, environment=frontend.environment,
        ahead=packages_ahead.call_for(frontend),
    )  # fmt: skip
    if last["event"] == EXPORTED:
        if own is not None and not outcome.ending.ok:
            why = allowance.reason(outcome.ending, "its own framework", outcome.log.last_line())
            own_results.note(folder, own.seed, why)
        return
    if last["event"] == "refused":
        raise ModelRefused(last["where"], last["expected"], last["got"], last["hint"])
    if last["event"] == "failed":
        raise ExportFailed(last["stage"], last["error"], last["traceback"])
    if not outcome.ending.ok:
        if allowance.budget_is_spent:
            raise BudgetSpent(str(last["stage"]))
        error = allowance.reason(outcome.ending, str(last["stage"]), outcome.log.last_line())
        raise ExportFailed(str(last["stage"]), error, outcome.log.tail(1000))
