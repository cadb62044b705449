"""Backs up and restores Superset's own database: users, saved work, and the key that encrypts its secrets."""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import time
import zipfile
from contextlib import closing
from pathlib import Path

from opscope.base import regular_file
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home

PARTS = ("superset.sqlite", "secret_key", "admin_password")
LABEL = "opscope-dashboard.json"
FORMAT = 1


def backup(home: Home, archive: Path) -> None:
    """Writes `archive`, readable only by its owner; the server may be running. Raises DashboardError."""
    if not home.metadata.is_file():
        raise DashboardError(
            "opscope dashboard backup", "a dashboard server", f"none in {home.folder}", "opscope dashboard up"
        )
    with tempfile.TemporaryDirectory(dir=home.folder) as folder:
        copy = Path(folder) / PARTS[0]
        with closing(sqlite3.connect(home.metadata)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        temporary = Path(folder) / "archive"
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(LABEL, json.dumps({"format": FORMAT, "superset": home.venv.name}))
            for part in PARTS:
                file.write(copy if part == PARTS[0] else home.folder / part, part)
        try:
            descriptor = os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        except OSError as error:
            raise DashboardError(str(archive), "a writable place", str(error.strerror)) from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(temporary.read_bytes())


def restore(home: Home, archive: Path) -> Path | None:
    """Restores the files in `archive`; moves the existing ones to a folder beside them and returns that folder.

    Only the files of a backup are read, by name, so an archive cannot write anywhere else. Raises DashboardError for an
    archive that is not a backup, before anything is changed.
    """
    parts_of_archive = _parts(archive)
    home.make()
    replaced = home.folder / f"before-restore-{time.strftime('%Y%m%d-%H%M%S')}"
    log = ("superset.sqlite-wal", "superset.sqlite-shm")  # of a killed server, not of the restored database
    old = [home.folder / part for part in (*PARTS, *log) if (home.folder / part).exists()]
    if old:
        replaced.mkdir(mode=0o700)
        for path in old:
            path.replace(replaced / path.name)
    for part, content in parts_of_archive.items():
        descriptor = os.open(home.folder / part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    home.forget_import()
    return replaced if old else None


def _parts(archive: Path) -> dict[str, bytes]:
    try:
        regular_file.check(archive)
        with zipfile.ZipFile(archive) as file:
            label = json.loads(file.read(LABEL))
            parts = {part: file.read(part) for part in PARTS}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DashboardError(str(archive), "a backup of `opscope dashboard backup`", reason) from None
    if label.get("format") != FORMAT or not parts[PARTS[0]].startswith(b"SQLite format 3\0"):
        raise DashboardError(str(archive), f"a backup of format {FORMAT}", f"format {label.get('format')}")
    return parts
