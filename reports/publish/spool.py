"""Delivers runs to a database, and keeps those that it does not take below .opscope/spool until it does.

    .opscope/spool/<database>/<run id>/    run.json, manifest.jsonl, whole.jsonl, night.json and the journal

A run is copied there before it is published, and the copy goes once the run is in the database: whatever dies, the
next publish delivers it. A copy of the records stands there, not a pointer: the run's folder may be gone when the
database is back. Publishing is idempotent, so a run that arrived after all is only published again. Each run is
delivered by itself, under a claim; one that is refused is set aside (opscope/base/results_folder.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from opscope.base.atomic_write import write_whole
from opscope.base.digest import words_digest
from opscope.base.results_folder import REASON_FILE, REFUSED, SPOOL, SetAside, make_folder, set_aside
from opscope.base.time_limit import TimeIsUpError, time_limit
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.store import StoredRun, read_run
from opscope.reports.database.database import DatabaseAwayError, DatabaseRefusedError, parse_url, shown, usable_url
from opscope.reports.publish.publish import publish
from opscope.reports.records import kept_runs

Result = TypeVar("Result")

SECONDS = 900.0
"""How long the publish of one run may take (--publish-timeout)."""


@dataclass(frozen=True)
class Delivery:
    """What became of a run, and of those that waited before it."""

    rows: Mapping[str, int] | None = None
    """Rows of the run per table; None if it was not published."""
    from_spool: tuple[str, ...] = ()
    """Ids of the runs that arrived from the spool."""
    problem: InputError | None = None
    """Why the run is not in the database: DatabaseAwayError if it waits; else it was refused and is set aside."""
    lost: bool = False
    """Whether the run is not in the spool either."""
    others: tuple[InputError, ...] = ()
    """Why those that waited before it go on waiting, or were set aside now."""
    earlier: tuple[SetAside, ...] = ()
    """What was set aside before."""

    @property
    def problems(self) -> list[InputError]:
        """What went wrong now."""
        return [*self.others, *([self.problem] if self.problem is not None else [])]


def exit_code(problems: Iterable[InputError]) -> int:
    """0 delivered, 1 kept until the database is back, 2 refused."""
    return max((getattr(problem, "exit_code", 2) for problem in problems), default=0)


def folder_of(url: str, root: Path) -> Path:
    """The folder where the runs for that database wait; it does not depend on user and password."""
    place = shown(parse_url(url).set(username=None, password=None))
    return root / SPOOL / words_digest(place, digits=12)


def waiting(url: str, root: Path) -> list[Path]:
    """The runs that wait for that database, in the order of their ids."""
    return sorted(kept_runs.kept_runs(folder_of(url, root)))


def refused(url: str, root: Path) -> list[SetAside]:
    """What that database refused."""
    return set_aside(root, folder_of(url, root).name)


def keep(run_dir: Path, url: str, root: Path) -> Path:
    """Copies the records of a run into the spool, whole or not at all; the copy's folder.

    Raises InputError where the disk takes no copy.
    """
    folder, run_id = folder_of(url, root), read_run(run_dir).run_id
    if run_dir.parent.resolve() == folder.resolve():
        return run_dir
    try:
        return kept_runs.keep_copy(run_dir, folder, run_id, shown(parse_url(url)))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(str(folder / run_id), "a writable place", reason, f"opscope publish {run_dir}") from error


def set_run_aside(path: Path, url: str, root: Path, error: InputError) -> InputError:
    """Moves what waits, a run or a report, to what was refused; the error with its place. It stays if that fails."""
    place = folder_of(url, root).with_name(f"{folder_of(url, root).name}{REFUSED}")
    hint = "; ".join(filter(None, (error.hint, "then opscope publish, which tries it again" * path.is_dir())))
    again = (each.folder for each in refused(url, root) if kept_runs.same_run(each.folder, path))
    target = path if path.parent == place else next(again, kept_runs.free_name(place, path.name))
    try:
        if target != path:
            kept_runs.remove(target)
            make_folder(target if path.is_file() else place)
            path.rename(target / path.name if path.is_file() else target)
        write_whole(target / REASON_FILE, f"{error}\n")
    except OSError as problem:
        return InputError(error.where, error.expected, f"{error.got}; it stays at {path} ({problem.strerror})", hint)
    return InputError(error.where, error.expected, f"{error.got}; it is set aside in {target}", hint)


def drain(url: str, root: Path, where: str = "--to", seconds: float = SECONDS, *, again: bool = False) -> Delivery:
    """Publishes what waits for that database, each run by itself; `again`: what it refused before, too.

    Raises nothing: once the database is away, the rest waits.
    """
    earlier = refused(url, root)
    kept = sorted(kept_runs.kept_runs(folder_of(url, root)), key=kept_runs.came_at)
    tried = [each.folder for each in earlier if again and not kept_runs.is_report(each.folder)]
    delivered: list[str] = []
    problems: list[InputError] = []
    for folder in (*kept, *tried):
        with kept_runs.claim(folder) as ours:
            if not ours:
                continue  # another process has delivered it, or does
            try:
                _published(folder, url, where, lambda folder=folder: publish(folder, url, where), seconds)
            except DatabaseAwayError as error:
                problems.append(kept_for_later(error, folder))
                with contextlib.suppress(OSError):
                    os.utime(folder)  # next time it comes last: it may be the run that takes too long
                break
            except InputError as error:
                problems.append(set_run_aside(folder, url, root, error))
            else:
                delivered.append(folder.name)
                kept_runs.remove(folder)
    before = tuple(each for each in earlier if each.folder not in tried and each.folder.is_dir())
    return Delivery(None, tuple(delivered), others=tuple(problems), earlier=before)


def deliver(
    run_dir: Path,
    url: str,
    root: Path,
    where: str = "--to",
    records: tuple[StoredRun, Sequence[OpTest]] | None = None,
    seconds: float = SECONDS,
) -> Delivery:
    """Publishes a run, and then what waited before it.

    It is in the spool from the beginning, and stays there if the database is away, refuses the login, or takes more
    than `seconds`. Raises InputError where `run_dir` holds no run or `url` is none; what else goes wrong is in the
    result.
    """
    read_run(run_dir)
    usable_url(url, where)
    copy, no_copy = None, None
    try:
        copy = keep(run_dir, url, root)
    except InputError as error:
        no_copy = error
    with kept_runs.claim(copy) if copy is not None else contextlib.nullcontext():
        try:
            rows = _published(run_dir, url, where, lambda: publish(run_dir, url, where, records), seconds)
        except InputError as error:
            if copy is None:
                got, hint = f"{error.got}; nor is it kept: {no_copy}", f"opscope publish {run_dir}"
                return Delivery(problem=type(error)(error.where, error.expected, got, hint), lost=True)
            if isinstance(error, DatabaseAwayError):
                return Delivery(problem=kept_for_later(error, copy), earlier=tuple(refused(url, root)))
            earlier = tuple(refused(url, root))
            aside = set_run_aside(copy, url, root, error)
            return replace(drain(url, root, where, seconds), problem=aside, earlier=earlier)
        if copy is not None:
            kept_runs.remove(copy)
    for each in refused(url, root):
        if kept_runs.same_run(each.folder, run_dir):
            kept_runs.remove(each.folder)  # it was mended
    return replace(drain(url, root, where, seconds), rows=rows)


def kept_for_later(error: DatabaseAwayError, folder: Path) -> DatabaseAwayError:
    """The error with the command that delivers what is kept there."""
    next_command = f"opscope publish, which delivers {folder}"
    hint = f"{error.hint}: {next_command}" if isinstance(error, DatabaseRefusedError) else next_command
    return type(error)(error.where, error.expected, error.got, hint)


def _published(run_dir: Path, url: str, where: str, step: Callable[[], Result], seconds: float) -> Result:
    """The result of a publish. Raises DatabaseAwayError if it takes too long; then its transaction is rolled back.

    Raises InputError for a run that nothing can be made of, whatever is raised: none may stop those behind it.
    """
    try:
        with time_limit(seconds):
            return step()
    except TimeIsUpError as error:
        raise DatabaseAwayError(where, f"a publish of at most {seconds:g} s", str(error), "opscope publish") from error
    except InputError:
        raise
    except Exception as error:
        got = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise InputError(str(run_dir), "a run that can be published", got, "a copy of the run folder") from error
