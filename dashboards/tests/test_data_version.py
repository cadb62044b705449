"""Cached answers of charts rest on the version of the results database."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from opscope.dashboards.home import ROOM

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does
import data_version  # type: ignore[import-not-found]


def test_every_write_is_another_version_and_reading_is_none(tmp_path: Path) -> None:
    file = tmp_path / "with space.sqlite"
    version = data_version.of_database(f"sqlite:///file:{tmp_path}/with%20space.sqlite?mode=ro&uri=true")
    seen = [version()]
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (x)")
        seen.append(version())
        for number in range(3):  # these stay in the -wal file: the database's own file is as before
            size = file.stat().st_size
            writer.execute("INSERT INTO t VALUES (?)", [number])
            writer.commit()
            assert file.stat().st_size == size
            seen.append(version())
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as reader:
            assert reader.execute("SELECT COUNT(*) FROM t").fetchone() == (3,)
            assert version() == seen[-1]
    assert len(set(seen)) == len(seen)
