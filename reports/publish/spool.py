"""Keeps runs whose database could not be reached below .opscope/spool until a later publish delivers them.

    .opscope/spool/<database>/<run id>/    run.json, manifest.jsonl, whole.jsonl, night.json and the journal

A copy of the records stands there, not a pointer: the run's folder may be gone when the database is back. Publishing is
idempotent, so a run that arrived after all is only published again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from opscope.base.digest import words_digest
from opscope.base.inner_path import copy_file, copy_folder, inside
from opscope.base.results_folder import NAME, make_folder
from opscope.base.time_limit import TimeIsUpError, time_limit
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.record.store import JOURNAL_DIR, MANIFEST_FILE, RUN_FILE, WHOLE_FILE, StoredRun, read_run
from opscope.reports.database.database import DatabaseAwayError, DatabaseRefusedError, parse_url, shown
from opscope.reports.publish.publish import publish
from opscope.reports.records.night_record import NIGHT_FILE

Result = TypeVar("Result")

SPOOL = Path(NAME) / "spool"
SECONDS = 900.0
"""How long the publish of one run may take (--publish-timeout)."""


def folder_of(url: str, root: Path) -> Path:
    """The folder where the runs for that database wait; it does not depend on user and password."""
    place = shown(parse_url(url).set(username=None, password=None))
    return root / SPOOL / words_digest(place, digits=12)


def waiting(url: str, root: Path) -> list[Path]:
    """The runs that wait for that database, in the order of their ids."""
    folder = folder_of(url, root)
    return sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}")) if folder.is_dir() else []


def keep(run_dir: Path, url: str, root: Path) -> Path:
    """Copies the records of a run into the spool, whole or not at all; the copy's folder.

    Raises InputError where the disk takes no copy.
    """
    waiting_runs, run_id = folder_of(url, root), read_run(run_dir).run_id
    target, temporary = waiting_runs / run_id, waiting_runs / f".{run_id}.{os.getpid()}"
    try:
        make_folder(inside(waiting_runs, temporary.name))
        inside(waiting_runs, run_id)
        (target.parent / "database").write_text(shown(parse_url(url)) + "\n", encoding="utf-8")
        for name in (RUN_FILE, MANIFEST_FILE, WHOLE_FILE, NIGHT_FILE):
            if (run_dir / name).exists():
                copy_file(inside(run_dir, name), temporary / name)
        if (run_dir / JOURNAL_DIR).is_dir():
            copy_folder(inside(run_dir, JOURNAL_DIR), temporary / JOURNAL_DIR)
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        reason = error.strerror or str(error)
        raise InputError(str(target), "a writable place", reason, f"opscope publish {run_dir}") from error
    return target


def drain(url: str, root: Path, where: str = "--to", seconds: float = SECONDS) -> list[str]:
    """Publishes what waits for that database; ids of the runs that arrived. Raises DatabaseAwayError as before."""
    published = []
    for run_dir in waiting(url, root):
        _in_time(seconds, where, lambda run_dir=run_dir: publish(run_dir, url, where))
        published.append(run_dir.name)
        shutil.rmtree(run_dir, ignore_errors=True)  # what stays is published again, which changes nothing
    return published


def deliver(
    run_dir: Path,
    url: str,
    root: Path,
    where: str = "--to",
    records: tuple[StoredRun, Sequence[OpTest]] | None = None,
    seconds: float = SECONDS,
) -> tuple[dict[str, int], list[str]]:
    """Publishes a run, and what waited before it: the run's rows per table, and the ids that arrived from the spool.

    A run whose database is away, refuses the login, or takes more than `seconds` is kept in the spool. Raises
    DatabaseAwayError then, of the kind that it was, and InputError as `publish` does.
    """
    try:
        from_spool = drain(url, root, where, seconds)
        return _in_time(seconds, where, lambda: publish(run_dir, url, where, records)), from_spool
    except DatabaseAwayError as error:
        folder = keep(run_dir, url, root)
        next_command = f"opscope publish, which delivers {folder}"
        hint = f"{error.hint}: {next_command}" if isinstance(error, DatabaseRefusedError) else next_command
        raise type(error)(error.where, error.expected, error.got, hint) from error


def _in_time(seconds: float, where: str, step: Callable[[], Result]) -> Result:
    """The result of a step. Raises DatabaseAwayError if it takes too long; then its transaction is rolled back."""
    try:
        with time_limit(seconds):
            return step()
    except TimeIsUpError as error:
        raise DatabaseAwayError(where, f"a publish of at most {seconds:g} s", str(error), "opscope publish") from error


def published_or_kept(run_dir: Path, url: str, root: Path, where: str = "--to") -> str:
    """`deliver` where the exit code tells of something else: one line if the run waits now, else nothing."""
    try:
        deliver(run_dir, url, root, where)
    except DatabaseAwayError as error:
        return str(error)
    return ""
