"""What a team takes with it is read without us: a dump by SQLite and by pandas."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from opscope.harness.record.errors import InputError
from opscope.reports.database.dump import dump
from opscope.reports.exports import frames
from opscope.reports.tests import test_ask


def test_a_dump_has_every_table_view_and_row(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.sqlite"
    test_ask.fill(tmp_path, url)
    file = tmp_path / "results.sql"
    assert dump(url, file) == file.stat().st_size
    with closing(sqlite3.connect(tmp_path / "again.sqlite")) as copy:
        copy.executescript(file.read_text(encoding="utf-8"))
        read = pd.read_sql("SELECT op_id, status, pcc FROM op_tests ORDER BY op_id, run_id", copy)
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
    with closing(sqlite3.connect(tmp_path / "results.sqlite")) as connection:
        assert tables == {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    expected = frames.op_tests(url)
    assert len(read) == len(expected) > 5
    assert sorted(read["op_id"]) == sorted(expected["op_id"])


def test_a_database_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--db: expected a database that is there, got sqlite:.*nowhere"):
        dump(f"sqlite:///{tmp_path}/nowhere.sqlite", tmp_path / "a.sql")
    assert not list(tmp_path.iterdir())
