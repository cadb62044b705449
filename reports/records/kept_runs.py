"""Run folders in the spool: copied there whole, claimed by one process at a time, and removed at once.

What a killed process leaves half copied or half removed has a name of its own, so that nobody takes it for a run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from opscope.base.inner_path import copy_file, copy_folder, inside
from opscope.base.results_folder import make_folder, remove_empty
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import JOURNAL_DIR, MANIFEST_FILE, RUN_FILE, WHOLE_FILE, read_run
from opscope.reports.records.night_record import NIGHT_FILE

REPORTS = "benchmarks"
"""The folder beside the runs for reports of benchmarks: no run may take its name."""
DATABASE_FILE = "database"
"""The file beside the runs that says which database they wait for."""
PART = "part-"
"""Begins the name of a folder of which not everything is there, or not any more."""
WAIT_SECONDS = 10.0
"""How long it waits for another process that copies a run into the spool, or delivers it. It may be frozen."""


def kept_runs(folder: Path) -> Iterator[Path]:
    """The folders of runs there, those without a run.json too: what is damaged is said, not passed over."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and (path.name != REPORTS or (path / RUN_FILE).exists()):
            yield path


def keep_copy(run_dir: Path, folder: Path, run_id: str, database: str) -> Path:
    """Copies the records of a run below `folder`, which waits for `database`, whole or not at all; the copy. Raises
    OSError."""
    temporary = folder.parent / f"{PART}{os.getpid()}-{run_id}"
    try:
        make_folder(folder.parent)
        with claim(folder.parent) as alone:
            for part in folder.parent.glob(f"{PART}*") if alone else ():
                shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
            copy_records(run_dir, temporary)
            for target in names(folder, run_id):
                with claim(target, 0) as ours:
                    if target.exists() and not (ours and same_run(target, run_dir)):
                        continue  # another run of that name waits too, or this one is being delivered as it was before
                    remove(target, tidy=False)
                    _move(temporary, target, database)
                    return target
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    raise AssertionError("there is always another name")


def _move(temporary: Path, target: Path, database: str) -> None:
    while True:
        try:
            make_folder(target.parent)
            (target.parent / DATABASE_FILE).write_text(f"{database}\n", encoding="utf-8")
            temporary.rename(target)
        except FileNotFoundError:  # another process has delivered the last run there, and removed the folder
            if not temporary.exists():
                raise
        else:
            return


def copy_records(run_dir: Path, target: Path) -> None:
    """Copies what a publish reads of a run. Raises OSError."""
    make_folder(inside(target.parent, target.name))
    for name in (RUN_FILE, MANIFEST_FILE, WHOLE_FILE, NIGHT_FILE):
        if (run_dir / name).exists():
            copy_file(inside(run_dir, name), target / name)
    if (run_dir / JOURNAL_DIR).is_dir():
        copy_folder(inside(run_dir, JOURNAL_DIR), target / JOURNAL_DIR)


def names(folder: Path, name: str) -> Iterator[Path]:
    """Places for a run: of its name, or with a number where that is taken."""
    for number in count(1):
        place = inside(folder, name if number == 1 else f"{name}-{number}")
        if place.name != REPORTS:
            yield place


def free_name(folder: Path, name: str) -> Path:
    """A place for a run of that name which nothing has yet."""
    return next(place for place in names(folder, name) if not place.exists())


def is_report(folder: Path) -> bool:
    """Whether a folder of what was refused holds a report of a benchmark, and not a run."""
    return (folder / folder.name).is_file()


def same_run(kept: Path, run_dir: Path) -> bool:
    """Whether both are the same run, maybe at another time: ids may be equal on two machines."""
    try:
        one, other = read_run(kept), read_run(run_dir)
    except InputError:
        return False
    return (one.run_id, one.started, one.origin.host) == (other.run_id, other.started, other.origin.host)


@contextlib.contextmanager
def claim(folder: Path, seconds: float = WAIT_SECONDS) -> Iterator[bool]:
    """Yields whether a folder is there that no other process claims; waits for one that does up to `seconds`."""
    descriptor, end = None, time.monotonic() + seconds
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            if descriptor is None:
                break
            busy = _locked_by_another(descriptor)
            if not busy and _is(folder, descriptor):
                break
            os.close(descriptor)  # another process has it, or it had, and has removed or replaced it
            descriptor = None
            if busy and time.monotonic() >= end:
                break
            time.sleep(0.02 * busy)
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked_by_another(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no locks on this file system: a run is published twice then, which changes nothing
        return False
    return False


def _is(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove(folder: Path, *, tidy: bool = True) -> None:
    """Removes a run at once: one that a killed process had removed half of would be published so.

    `tidy`: what held it goes too, if it was the last.
    """
    part = folder.parent.parent / f"{PART}{os.getpid()}-gone-{folder.name}"
    with contextlib.suppress(OSError):  # what stays is published again, which changes nothing
        folder.rename(part)
        shutil.rmtree(part, ignore_errors=True)
    with contextlib.suppress(OSError):
        if tidy and {each.name for each in folder.parent.iterdir()} <= {DATABASE_FILE}:
            (folder.parent / DATABASE_FILE).unlink(missing_ok=True)
            remove_empty(folder.parent)


def came_at(folder: Path) -> tuple[float, str]:
    """When a run came into the spool, or was last tried in vain."""
    try:
        return folder.stat().st_mtime, folder.name
    except OSError:
        return 0.0, folder.name
