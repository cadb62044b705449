"""What an earlier opscope stored, in a database, a spool and a run folder, is read, shown and added to as ever."""

from __future__ import annotations

import shutil
import sqlite3
import tarfile
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from opscope.harness.cli.main import root as opscope
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import load_run
from opscope.reports.compare.outcomes import from_database, from_stored
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database, schema_version, views
from opscope.reports.database.files import head
from opscope.reports.database.reading import read_database
from opscope.reports.publish import spool
from opscope.reports.tests import every_kind
from opscope.reports.tests.night_runs import fresh

STORED = Path(__file__).parent / "data" / "schema_0026.tar.xz"
"""Three nights of `mnist_mlp` as the last opscope with 26 migrations left them: the first two are in the database, the
second one's run folder is there too, and the third one's run waits in the spool. Three ops fail in the second.

    results.sqlite   results.pg.sql, the same in PostgreSQL   runs/<night>/   spool/<night>/
"""

OPS, FAILED_OP = 24, "553203c9434ff78b"


def extract(folder: Path) -> None:
    """Writes what was stored to `folder`."""
    with tarfile.open(STORED) as archive:
        archive.extractall(folder, filter="data")


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with what was stored, in which the commands of a test run."""
    extract(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> Result:
    return CliRunner().invoke(opscope, list(words), catch_exceptions=False)


def causes(url: str) -> set[object]:
    """The causes of a database, the same wherever they stand."""
    tables = (
        ("op_tests", "cause"),
        ("night_changes", "cluster"),
        ("night_fixes", "cluster"),
        ("newest_ops", "cluster"),
    )
    found = [
        {row[0] for row in ask(url, f"SELECT {column} FROM {table} WHERE {column} <> ''").rows}
        for table, column in tables
    ]
    assert all(each == found[0] for each in found)
    return found[0]


def as_time(value: datetime | str) -> datetime:
    """A time as a query answers it: PostgreSQL's, or SQLite's text."""
    return (datetime.fromisoformat(value) if isinstance(value, str) else value).replace(tzinfo=UTC)


def check_stored(url: str, folder: Path) -> None:
    """Reads, shows and brings up to date a database with the first two of these nights, and adds the third."""
    verdicts = "SELECT label, COUNT(*) FROM night_diff GROUP BY label"
    with pytest.raises(
        InputError, match=f"expected a database of schema {head()}, got schema 0026; try opscope db upgrade --db"
    ):
        ask(url, verdicts)
    assert call("db", "upgrade", "--db", url).exit_code == 0
    upgraded = causes(url)
    assert len(upgraded) == 1, "three ops without a lowering, one cause"
    with open_database(url) as connection:
        assert schema_version(connection) == head()
        assert set(sa.inspect(connection).get_view_names()) == set(views())
        for view in views():
            connection.execute(sa.text(f"SELECT * FROM {view}")).all()
    assert ask(url, verdicts).rows == (("NEW", 3),)
    assert ask(url, "SELECT night_status, COUNT(*) FROM dashboard_nights GROUP BY night_status").rows == (
        ("complete", 2),
    )
    # The ops of the newest night are stored where dashboards read them, and each night has its date.
    ops = "SELECT COUNT(*), SUM(tonight), COUNT(DISTINCT night_id), COUNT(cause) FROM dashboard_ops"
    assert ask(url, ops).rows == ((OPS, OPS, 1, 3),)
    dates = "SELECT day, date, tonight, of_date FROM night_dates ORDER BY started"
    midnight = datetime(2026, 11, 27, tzinfo=UTC)
    assert [(day, as_time(date), *rest) for day, date, *rest in ask(url, dates).rows] == [
        ("2026-11-27", midnight, 0, 0),
        ("2026-11-27", midnight, 1, 1),
    ]
    assert "nightly-20261127-032357" in call("status", "--db", url).output
    assert "no lowering for maximum" in call("show", FAILED_OP, "--db", url).output
    # The run folder holds what the database has of that night, and publishing it again changes nothing.
    (run_dir,) = (folder / "runs").iterdir()
    run = load_run(run_dir)
    with read_database(url) as connection:
        published = from_database(connection, run.record.run_id)
    in_database, in_folder = (  # the database's comparison reads the parameters of failing ops alone
        {op_id: replace(op, params={}) for op_id, op in view.ops.items()} for view in (published, from_stored(run, ""))
    )
    assert in_database == in_folder
    assert call("show", str(run_dir)).exit_code == 0
    assert call("publish", str(run_dir), "--to", url).exit_code == 0
    assert causes(url) == upgraded
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((2 * OPS,),)
    # The third night arrives from the spool.
    shutil.copytree(folder / "spool", spool.folder_of(url, folder), dirs_exist_ok=True)
    assert call("publish", "--to", url).exit_code == 0
    labels = "SELECT label, COUNT(*) FROM night_diff WHERE night = (SELECT MAX(night) FROM night_diff) GROUP BY label"
    assert ask(url, labels).rows == (("FIXED", 3),)
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((3 * OPS,),)


def test_what_was_stored_is_read_and_added_to(stored: Path) -> None:
    check_stored(f"sqlite:///{stored}/results.sqlite", stored)


def test_boards_and_ladders_of_series_are_those_that_publishing_stores(tmp_path: Path) -> None:
    url = fresh(tmp_path / "r.sqlite")
    every_kind.fill(tmp_path / "runs", url)
    boards = "SELECT backend, arch, board, COUNT(*) FROM night_series GROUP BY backend, arch, board"
    published = ask(url, boards).rows
    ladders = "SELECT night_id, series, stage, depth FROM night_stages ORDER BY 1, 2, 4"
    climbed = ask(url, ladders).rows
    assert {row[1].split()[0] for row in climbed if row[2:] == ("split", 1)} == {row[0] for row in published}
    assert {row[:3] for row in published} == {
        ("iree", "n150", ""),
        ("own", "n150", ""),
        ("reference", "n150", "n150"),
        ("reference", "p150", "p150"),
        ("xla", "n150", ""),
    }
    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as connection:
        for view in views():
            connection.execute(f"DROP VIEW {view}")
        for table, column in (
            ("night_series", "board"),
            ("night_series", "due"),
            ("night_sentences", "about"),
            ("night_sentences", "chips"),
        ):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        for column in ("numerics", "exact_order", "cycles_error", "domain_share", "largest_ulp", "over_ulp"):
            connection.execute(f"ALTER TABLE op_tests DROP COLUMN {column}")
        for table in ("notes", "night_stages"):
            connection.execute(f"DROP TABLE {table}")
        for column in ("axis", "release"):
            connection.execute(f"ALTER TABLE nights DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = '0028'")
        connection.commit()
    assert call("db", "upgrade", "--db", url).exit_code == 0
    assert ask(url, boards).rows == published
    assert ask(url, ladders).rows == climbed


@pytest.mark.parametrize("version", ["0001", "0025"])
def test_a_database_from_before_the_first_migration_is_refused_in_one_line(stored: Path, version: str) -> None:
    with sqlite3.connect(stored / "results.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [version])
    connection.close()
    for opened in (open_database, read_database):
        with pytest.raises(InputError) as error, opened(f"sqlite:///{stored}/results.sqlite", "--db"):
            pass
        assert str(error.value) == (
            f"--db: expected a database of schema 0026 or newer, got schema {version}; "
            "try publishing the run folders to a new database"
        )
