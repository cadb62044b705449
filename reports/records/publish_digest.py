"""The digest of a published run: of its records and of the code that turns them into rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from opscope.base.digest import digest_of_sources, files_digest, source_files
from opscope.base.places import HOME, room
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.reports.records.night_record import NIGHT_FILE

SOURCES = ("harness/record", "reports/records", "reports/database", "reports/publish", "reports/compare")
"""Folders in which a change may produce different rows from the same records."""


def digest(run_dir: Path) -> str:
    """The digest of a run folder's records, wherever the folder is. Raises InputError if a record is unreadable."""
    names = (store.RUN_FILE, store.MANIFEST_FILE, store.WHOLE_FILE, NIGHT_FILE)
    paths = [run_dir / name for name in names if (run_dir / name).exists()]
    try:
        return files_digest((*paths, *sorted((run_dir / store.JOURNAL_DIR).glob("*.jsonl"))), _code())
    except OSError as error:
        raise InputError(str(error.filename or run_dir), "a file of a run", error.strerror or str(error)) from error


@cache
def _code() -> str:
    """A digest of the source files that decide which rows are written."""
    return digest_of_sources(source_files(*map(room, SOURCES)), root=HOME)
