"""What a published run is known by: its records and the code that makes rows of them, as one digest."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from opscope.base.places import room
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.reports.records.night_record import NIGHT_FILE

PIECE = 1 << 20

SOURCES = ("harness/record", "reports/records", "reports/database", "reports/publish", "reports/compare")
"""Folders whose change may make other rows of the same records."""


def digest(run_dir: Path) -> str:
    """The digest of a run folder's records, whatever folder they lie in. Raises InputError where one is unreadable."""
    found = hashlib.sha256(_code())
    names = (store.RUN_FILE, store.MANIFEST_FILE, store.WHOLE_FILE, NIGHT_FILE)
    paths = [run_dir / name for name in names if (run_dir / name).exists()]
    for path in (*paths, *sorted((run_dir / store.JOURNAL_DIR).glob("*.jsonl"))):
        try:
            with path.open("rb") as file:
                found.update(f"{path.name} {path.stat().st_size}\n".encode())
                while piece := file.read(PIECE):
                    found.update(piece)
        except OSError as error:
            raise InputError(str(path), "a file of a run", error.strerror or str(error)) from error
    return found.hexdigest()


@cache
def _code() -> bytes:
    """A digest of the sources that decide what is written."""
    sources = [path for folder in SOURCES for path in sorted(room(folder).rglob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).digest()
