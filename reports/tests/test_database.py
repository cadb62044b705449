"""The database: migrations and records agree, views add nothing that may not be added, errors are one clean line."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from opscope.harness.cli.main import root
from opscope.harness.record.errors import InputError
from opscope.harness.record.masking import mask_secrets
from opscope.harness.record.records import OpTest, Origin
from opscope.reports.database import rows
from opscope.reports.database.database import DamagedValueError, open_database, parse_url, shown, views
from opscope.reports.database.files import default_url, head
from opscope.reports.database.reading import read_database
from opscope.reports.database.schema import DROPPED, METADATA, OP_TESTS, RUNS
from opscope.reports.publish.bulk import _converter
from opscope.reports.publish.publish import publish
from opscope.reports.tests.night_runs import copy_of
from opscope.reports.tests.sample_run import make_run


def test_a_new_database_has_the_tables_of_the_records(tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/db.sqlite") as connection:
        assert set(sa.inspect(connection).get_view_names()) == set(views())
        label = "EXPLAIN QUERY PLAN SELECT * FROM dashboard_history WHERE op = 'stablehlo.add 1234'"
        assert any("ix_ops_label" in row[3] for row in connection.execute(sa.text(label)))
    assert set(OpTest.model_fields) - set(DROPPED) <= {column.name for column in OP_TESTS.columns}
    assert set(Origin.model_fields) <= {column.name for column in RUNS.columns}


def test_no_rate_adds_places_of_execution_together(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    publish(make_run(tmp_path / "run"), url)
    with open_database(url) as connection:
        rows = connection.execute(sa.text("SELECT ran_on, attempted_ops, right_ops, pass_rate FROM pass_rate")).all()
        covered = connection.execute(
            sa.text("SELECT ran_on, attempted_ops, right_ops FROM coverage WHERE op_kind = 'eltwise'")
        ).all()
        ledger = connection.execute(sa.text("SELECT SUM(ops), SUM(uses) FROM ledger")).one()
        ladder = connection.execute(sa.text("SELECT SUM(ops), SUM(uses) FROM ladder")).one()
        failing = connection.scalar(sa.text("SELECT COUNT(*) FROM failures WHERE is_failure"))
        cycles = connection.scalar(sa.text("SELECT SUM(cycles_of_all_uses) FROM performance"))
    # By hand from sample_run.OPS: eleven of thirteen were attempted; two came out right on the simulator, one on the
    # host, and one passed the last stage that it was asked for, and ran nowhere.
    assert {row[0]: (row[1], row[2], row[3]) for row in rows} == {
        "simulator": (11, 2, 2 / 11),
        "host": (11, 1, 1 / 11),
        "none": (11, 1, 1 / 11),
    }
    assert {row[0]: (row[1], row[2]) for row in covered} == {"simulator": (4, 1), "host": (4, 1), "none": (4, 1)}
    assert tuple(ledger) == tuple(ladder) == (14, 32)
    assert failing == 6
    assert cycles == 16 * 4_096 + 3 * 120_000 + 2 * 9_000


def test_views_are_portable_text() -> None:
    for name, text in views().items():
        assert "%" not in text, name  # drivers take it for a parameter
        assert not {"ifnull", "::", "json_extract", "filter ("} & set(text.lower().split()), name
    for table in METADATA.sorted_tables:
        assert str(CreateTable(table).compile(dialect=postgresql.dialect()))


def test_a_changed_view_is_made_anew_and_a_dropped_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    with open_database(url):
        pass
    monkeypatch.setattr("opscope.reports.database.database.views", lambda: {"only_one": "SELECT 1 AS one"})
    with open_database(url) as connection:
        assert sa.inspect(connection).get_view_names() == ["only_one"]
        assert connection.scalar(sa.text("SELECT one FROM only_one")) == 1


@pytest.mark.slow
def test_two_first_publishes_at_once_both_arrive(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    folders = [make_run(tmp_path / f"run{n}", run_id=f"run{n}") for n in range(4)]
    errors: list[BaseException] = []

    def go(folder: Path) -> None:
        try:
            publish(folder, url)
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread of the test
            errors.append(error)

    # Alembic's context is one per process, so the schema is made by whoever is first and the rest only write.
    publish(folders[0], url)
    threads = [threading.Thread(target=go, args=(folder,)) for folder in folders[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with open_database(url) as connection:
        assert connection.scalar(sa.text("SELECT COUNT(*) FROM runs")) == 4


def test_a_failed_publish_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    publish(make_run(tmp_path / "run"), url)
    run = make_run(tmp_path / "other", run_id="other")
    # A test of an op that does not exist breaks a foreign key of the last table, after all others were written.
    rows_of = rows.op_test_rows

    def broken(*args: Any) -> Iterator[list[Any]]:
        for row in rows_of(*args):
            row[[column.name for column in OP_TESTS.columns].index("op_id")] = "nobody"
            yield row

    monkeypatch.setattr(rows, "op_test_rows", broken)
    with pytest.raises(InputError, match="FOREIGN KEY constraint failed"):
        publish(run, url)
    with open_database(url) as connection:
        for table in ("runs", "models", "op_tests", "night_models"):
            assert connection.scalar(sa.text(f"SELECT COUNT(*) FROM {table} WHERE run_id = 'other'")) == 0, table
        assert connection.scalar(sa.text("SELECT COUNT(*) FROM runs")) == 1


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("results.sqlite", "a database URL, got a text that is no URL"),
        ("sqlite:///\udcff", "a database URL, got a text that is no Unicode in this locale"),
        ("oracle://scott:tiger@host/db", "got `oracle`"),
        ("postgresql://user:hunter2@127.0.0.1:1/nobody", "--to: expected "),
        ("sqlite:////proc/nowhere/db.sqlite", "a writable folder"),
        ("sqlite:////", "unable to open database file"),
        ("sqlite:////dev/zero", "a file for the database, got /dev/zero (no regular file)"),
    ],
)
def test_bad_targets_are_one_line_without_a_password(url: str, expected: str) -> None:
    with pytest.raises(InputError) as error, open_database(url):
        pass
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
    assert "hunter2" not in str(error.value)
    assert "tiger" not in str(error.value)


@pytest.mark.slow
def test_a_file_that_is_no_database_or_read_only_or_newer(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a database, but long enough to be read as one\n" * 100)
    with pytest.raises(InputError, match="file is not a database"), open_database(f"sqlite:///{other}"):
        pass
    path = tmp_path / "db.sqlite"
    run = make_run(tmp_path / "run")
    publish(run, f"sqlite:///{path}")
    with pytest.raises(InputError, match="readonly database"):
        publish(make_run(tmp_path / "other", run_id="other"), f"sqlite:///file:{path}?mode=ro&uri=true")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(InputError, match=f"schema {head()} or older, got schema 9999; try a newer opscope"):
        publish(run, f"sqlite:///{path}")


def test_passwords_are_masked_wherever_a_url_holds_them() -> None:
    masked = shown(parse_url("postgresql://ann:hunter2@host/db?sslmode=require&sslpassword=swordfish"))
    assert masked == "postgresql://ann:***@host/db?sslmode=require&sslpassword=***"
    assert default_url(Path("/a/b")) == "sqlite:////a/b/.opscope/opscope.sqlite"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with one run."""
    folder = tmp_path_factory.mktemp("published")
    publish(make_run(folder / "run", run_id="run"), f"sqlite:///{folder}/db.sqlite")
    return f"sqlite:///{folder}/db.sqlite"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE alembic_version SET version_num = '0000x'", "got schema 0000x"),
        ("UPDATE alembic_version SET version_num = x'00ff'", "expected a database of schema"),
        ("UPDATE op_tests SET cycles = 'many', pcc = x'00'", "got a damaged database"),
        ("UPDATE op_tests SET status = 'nope'", "got a damaged database"),
        ("UPDATE runs SET started = 'yesterday'", "got a damaged database (ValueError: Invalid isoformat string"),
        ("UPDATE runs SET options = '{'", "got a damaged database (JSONDecodeError"),
        ("UPDATE runs SET options = '[1]'", "expected the options of run"),
    ],
)
def test_values_that_no_opscope_wrote_are_one_line(published: str, tmp_path: Path, change: str, reason: str) -> None:
    path = tmp_path / "db.sqlite"
    copy_of(published, path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    commands = [["export", "run", "--format", "csv", "-o", "-"]]
    if "op_tests" in change:
        commands += [["diff", "run", "run"], ["unblock"]]
    for words in commands:
        error = CliRunner().invoke(root, [*words, "--db", f"sqlite:///{path}"]).exception
        assert isinstance(error, InputError)
        assert reason in str(error)
        assert "\n" not in str(error)


def test_nan_is_published_as_null() -> None:
    """As it would be where rows of a damaged database are written again."""
    real = _converter(sa.Double(), "sqlite", clean=True)
    assert real is not None
    assert [real(1.5), real(2), real(float("nan"))] == [1.5, 2, None]
    with pytest.raises(DamagedValueError, match="expected a number, got b'"):
        real(b"\0")


@pytest.mark.parametrize("key", ["password", "sslpassword", "passfile", "access_token", "api_key", "SECRET"])
def test_a_database_is_shown_by_the_same_rule_as_every_url(key: str) -> None:
    url = f"postgresql://me:geheim@host/db?{key}=geheim&x=1"
    assert shown(parse_url(url)) == mask_secrets(url) == f"postgresql://me:***@host/db?{key}=***&x=1"


def test_commands_offered_for_an_empty_database_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in an empty folder, else the newest run by its folder."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path / 'db.sqlite'}"
    for run, hint in (
        (None, "pytest --model mnist_mlp --op-by-op"),
        ("one", f"opscope publish {tmp_path}/.opscope/runs/one"),
    ):
        if run is not None:
            make_run(tmp_path / ".opscope" / "runs" / run)
        with pytest.raises(InputError) as caught, read_database(url):
            pass
        assert str(caught.value).endswith(f"db.sqlite; try {hint}")
    publish(tmp_path / hint.partition("publish ")[2], url)
    with read_database(url):
        pass
