"""Backup and restore of Superset's own database: whole, private, and nothing else is ever read from an archive."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from opscope.dashboards.backup import LABEL, PARTS, backup, restore
from opscope.dashboards.errors import DashboardError
from opscope.dashboards.home import Home


def make_home(folder: Path, word: str) -> Home:
    home = Home(folder, folder / "cache")
    home.make()
    home.secret("secret_key", 42)
    home.secret("admin_password", 18)
    with closing(sqlite3.connect(home.metadata)) as connection, connection:
        connection.execute("CREATE TABLE t (word TEXT)")
        connection.execute("INSERT INTO t VALUES (?)", (word,))
    return home


def word_in(home: Home) -> str:
    with closing(sqlite3.connect(home.metadata)) as connection:
        return connection.execute("SELECT word FROM t").fetchone()[0]


def test_a_backup_is_restored_whole(tmp_path: Path) -> None:
    one, two = make_home(tmp_path / "one", "kept"), make_home(tmp_path / "two", "other")
    (two.folder / "imported").write_text("digest")
    archive = tmp_path / "b.zip"
    writer = sqlite3.connect(one.metadata)  # a server that runs has it open
    backup(one, archive)
    writer.close()
    assert archive.stat().st_mode & 0o777 == 0o600
    kept = restore(two, archive)
    assert word_in(two) == "kept"
    assert (two.folder / "secret_key").read_text() == (one.folder / "secret_key").read_text()
    assert all((two.folder / part).stat().st_mode & 0o777 == 0o600 for part in PARTS)
    assert not (two.folder / "imported").exists(), "the next `up` imports the bundle again"
    assert kept is not None
    assert sorted(path.name for path in kept.iterdir()) == sorted(PARTS)


def test_a_backup_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DashboardError, match="expected a dashboard server, got none"):
        backup(Home(tmp_path, tmp_path), tmp_path / "b.zip")


def archive_of(path: Path, **parts: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr({"label": LABEL, "database": PARTS[0]}.get(name, name), content)
    return path


LABELLED = {"label": json.dumps({"format": 1}).encode(), "secret_key": b"k", "admin_password": b"p"}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"label": b"{}"},
        LABELLED,
        {**LABELLED, "database": b"no database"},
        {**LABELLED, "label": b'{"format": 2}', "database": b"SQLite format 3\0"},
    ],
)
def test_a_file_that_is_no_backup_changes_nothing(tmp_path: Path, parts: dict[str, bytes]) -> None:
    home = make_home(tmp_path / "home", "mine")
    with pytest.raises(DashboardError, match="expected a backup"):
        restore(home, archive_of(tmp_path / "a.zip", **parts))
    with pytest.raises(DashboardError, match="expected a backup"):
        restore(home, tmp_path / "none.zip")
    with pytest.raises(DashboardError, match="no regular file"):
        restore(home, Path("/dev/zero"))
    assert word_in(home) == "mine"


def test_other_names_in_an_archive_are_not_read(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home", "mine")
    backup(home, tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as file:
        file.writestr("../../escaped", "x")
        file.writestr("/tmp/opscope-escaped", "x")
    restore(home, tmp_path / "b.zip")
    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path.parent / "escaped").exists()
    assert not Path("/tmp/opscope-escaped").exists()
