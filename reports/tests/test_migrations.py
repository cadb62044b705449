"""What an earlier opscope stored, in a database, a spool and a run folder, is read, shown and added to as ever."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from opscope.harness.cli.main import root as opscope
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import Journal, load_run, write_manifest, write_run
from opscope.reports.compare.outcomes import from_database, from_stored
from opscope.reports.database.ask import ask
from opscope.reports.database.database import open_database, schema_version, views
from opscope.reports.database.files import head, numbers
from opscope.reports.database.reading import read_database
from opscope.reports.publish import spool
from opscope.reports.records.night_record import join, membership
from opscope.reports.tests import new_migration, stored_head

OPS, FAILED_OP = 24, "553203c9434ff78b"


@pytest.fixture(params=stored_head.stored())
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with what an opscope of some head stored, in which the commands of a test run."""
    stored_head.extract(request.param, tmp_path)
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


def write_note(url: str) -> str:
    """Writes a note, as the opscope of that database did, of the one cause that it has; returns that cause."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        cause = connection.scalars(sa.text("SELECT DISTINCT cause FROM op_tests WHERE cause <> ''")).one()
        values = {"cause": cause, "text": "we know", "author": "ann", "written": "2026-11-27 09:00", "until": ""}
        connection.execute(sa.text("INSERT INTO notes VALUES (:cause, :text, :author, :written, :until)"), values)
    engine.dispose()
    return str(cause)


def same_night_again(run_dir: Path, into: Path) -> Path:
    """The run folder of a night one second later that ends as the one in `run_dir` did."""
    run, member, later = load_run(run_dir), membership(run_dir), timedelta(seconds=1)
    assert member is not None
    record = run.record.model_copy(update={"run_id": "again", "started": run.record.started + later})
    write_manifest(into, run.header, run.rows)
    with Journal(into, "main") as journal:
        for test in run.tests:
            journal.append(test.model_copy(update={"run_id": "again"}))
    write_run(into, record)
    join(into, member.night.model_copy(update={"started": member.night.started + later}))
    return into


def check_stored(url: str, folder: Path, number: str) -> None:
    """Reads, shows and brings up to date a database of that head with the first two nights, and adds the third."""
    verdicts = "SELECT label, COUNT(*) FROM night_diff GROUP BY label"
    if number != head():
        with pytest.raises(InputError, match=f"of schema {head()}, got schema {number}; try opscope db upgrade --db"):
            ask(url, verdicts)
    of_its_time = write_note(url)
    assert call("db", "upgrade", "--db", url).exit_code == 0
    upgraded = causes(url)
    assert upgraded == {of_its_time}, "three ops without a lowering, one cause, which the upgrade leaves as it is"
    with open_database(url) as connection:
        assert schema_version(connection) == head()
        assert new_migration.changes(connection) == [], "it has the tables of a new database"
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
    # A night that fails as the last one before the upgrade: nothing is new, and the note that was there speaks of it.
    assert call("publish", str(same_night_again(run_dir, folder / "again")), "--to", url).exit_code == 0
    newest = "started = (SELECT MAX(started) FROM night_diff)"
    again = f"SELECT label, news, remark, COUNT(*) FROM night_diff WHERE {newest} GROUP BY label, news, remark"
    ((label, news, remark, ops),) = ask(url, again).rows
    assert (label, int(news), ops) == ("PERSISTING", 0, 3)
    assert remark.endswith("we know")
    # The third night arrives from the spool.
    shutil.copytree(folder / "spool", spool.folder_of(url, folder), dirs_exist_ok=True)
    assert call("publish", "--to", url).exit_code == 0
    labels = f"SELECT label, COUNT(*) FROM night_diff WHERE {newest} GROUP BY label"
    assert ask(url, labels).rows == (("FIXED", 3),)
    assert ask(url, "SELECT COUNT(*) FROM op_tests").rows == ((4 * OPS,),)


@pytest.mark.slow
def test_what_was_stored_is_read_and_added_to(stored: Path, request: pytest.FixtureRequest) -> None:
    check_stored(f"sqlite:///{stored}/{stored_head.SQLITE}", stored, request.node.callspec.params["stored"])


def test_each_head_that_a_migration_follows_has_a_database_here() -> None:
    assert stored_head.lacking() == [], "try python -m opscope.reports.tests.stored_head"


def test_a_database_from_before_the_first_migration_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its run folders are published to a new one, as the line says."""
    stored_head.extract(stored_head.stored()[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    for version in ("0001", "0026", "0034"):
        with closing(sqlite3.connect(stored_head.SQLITE)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", [version])
        for opened in (open_database, read_database):
            with pytest.raises(InputError) as error, opened(f"sqlite:///{tmp_path}/{stored_head.SQLITE}", "--db"):
                pass
            assert str(error.value) == (
                f"--db: expected a database of schema {numbers()[0]} or newer, got schema {version}; "
                "try publishing the run folders to a new database: opscope publish RUN_DIR... --to URL"
            )
    folders = [str(each) for name in ("runs", "spool") for each in (tmp_path / name).iterdir()]
    assert call("publish", *folders, "--to", "sqlite:///new.sqlite").exit_code == 0
    labels = "SELECT label, COUNT(*) FROM night_diff GROUP BY label ORDER BY label"
    assert ask("sqlite:///new.sqlite", labels).rows == (("FIRST", 3), ("FIXED", 3))


def test_migrations_make_the_tables_of_a_new_database() -> None:
    with new_migration.migrated(stored_head.stored()[0]) as connection:
        assert new_migration.changes(connection) == []
