"""A database that an earlier opscope made is brought up to date with all that it held."""

from __future__ import annotations

import importlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from opscope.harness.record.stages import Stage
from opscope.harness.record.store import load_run
from opscope.reports.compare.outcomes import from_database, from_stored
from opscope.reports.database.database import head, open_database, schema_version
from opscope.reports.publish.publish import publish
from opscope.reports.publish.upkeep import add_alias
from opscope.reports.tests.nights import Op, night, op_id

OLD = Path(__file__).parent / "data" / "schema_0003.sql"
"""Three runs as schema 0003 held them: the one of sample_run.py, and two nights of nights.py."""

OPS = {"add": Op(uses={"a": 2}, compile_ms=5.0), "exp": Op(uses={"a": 1, "b": 1})}


@pytest.fixture
def url(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "db.sqlite") as connection:
        connection.executescript(OLD.read_text(encoding="utf-8"))
    connection.close()
    return f"sqlite:///{tmp_path}/db.sqlite"


def test_every_row_of_before_is_there_and_counted(url: str) -> None:
    with open_database(url) as connection:
        counts = {
            table: connection.scalar(sa.text(f"SELECT COUNT(*) FROM {table}"))
            for table in ("runs", "nights", "models", "ops", "op_tests", "night_series", "night_changes")
        }
        assert schema_version(connection) == head()
        pcc = sa.text("SELECT results FROM op_tests WHERE op_name = 'stablehlo.tanh'")
        assert '"pcc": 0.42' in str(connection.scalar(pcc))
        compile_ms = sa.text(
            "SELECT DISTINCT ROUND(1000 * compile_seconds) FROM op_tests WHERE op_name = 'stablehlo.add'"
        )
        assert set(connection.scalars(compile_ms)) == {5.0, 60.0}
        assert connection.execute(sa.text("PRAGMA foreign_key_check")).all() == []
    assert counts == {
        "runs": 3,
        "nights": 3,
        "models": 5,
        "ops": 15,
        "op_tests": 17,
        "night_series": 3,
        "night_changes": 9,
    }


def test_a_run_of_before_reads_as_its_folder_and_goes_on(url: str, tmp_path: Path) -> None:
    run_dir = night(tmp_path, 2, OPS)
    with open_database(url) as connection:
        old = from_database(connection, "night02")
    expected = from_stored(load_run(run_dir), "").ops
    where = str(tmp_path)
    assert old.ops == {op_id: replace(op, repro=op.repro.replace(where, "/runs")) for op_id, op in expected.items()}
    publish(night(tmp_path, 3, {**OPS, "add": Op("crashed", uses={"a": 2})}), url)
    with open_database(url) as connection:
        news = sa.text("SELECT label FROM night_changes WHERE night_id = 'night03'")
        assert connection.scalars(news).all() == ["NEW"]


def test_statuses_of_before_have_their_names_of_today(url: str) -> None:
    with open_database(url) as connection:
        wrong = sa.text("SELECT op_name FROM op_tests WHERE status = 'wrong_result'")
        assert connection.scalars(wrong).all() == ["stablehlo.tanh"]


def test_a_status_is_renamed_wherever_one_stands(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    wrong = Op(
        "wrong_result",
        uses={"a": 1},
        failed=Stage.COMPARE,
        error="PCC 0.1",
        more={"flaky": True, "outcomes": ("wrong_result at compare", "crashed at run")},
    )
    publish(night(tmp_path, 0, {"exp": Op("crashed", uses={"a": 1})}), url)
    publish(night(tmp_path, 1, {"exp": wrong}), url)
    publish(night(tmp_path, 2, {"exp": Op("crashed", uses={"a": 1})}), url)
    with open_database(url) as connection:
        expected = _all_rows(connection)
        assert sum("wrong_result" in rows for rows in expected.values()) >= 3  # tests, counts, changes
    with sqlite3.connect(tmp_path / "db.sqlite") as connection:
        for table, column in [
            ("op_tests", "status"),
            ("op_tests", "outcomes"),
            ("night_counts", "status"),
            ("night_changes", "status_before"),
            ("night_changes", "status_now"),
            ("night_changes", "note"),
        ]:
            connection.execute(f"UPDATE {table} SET {column} = REPLACE({column}, 'wrong_result', 'golden_failed')")
        for (view,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
            connection.execute(f"DROP VIEW {view}")
        connection.execute("DELETE FROM opscope_settings")
        for table, column in (("op_tests", "second_authority"), ("night_kinds", "ops"), ("night_kinds", "uses")):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = '0024'")
    connection.close()
    with open_database(url) as connection:
        assert _all_rows(connection) == expected


def _all_rows(connection: sa.Connection) -> dict[str, str]:
    """Table -> its rows as text."""
    tables = ("op_tests", "night_counts", "night_kinds", "night_changes", "whole_models")
    return {
        table: str(
            sorted(str(sorted(row.items())) for row in connection.execute(sa.text(f"SELECT * FROM {table}")).mappings())
        )
        for table in tables
    }


def test_what_an_upgrade_counts_is_what_publishing_counts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    failed = Op("compile_failed", uses={"a": 1, "b": 3}, error="no lowering")
    same = {"exp": Op("not_run", uses={"b": 1}), "host": Op(uses={"a": 4}, more={"ran_on": "host"})}
    for number, name in enumerate(("old", "add")):
        publish(night(tmp_path, number, {**same, name: failed}), url)
    versions = "opscope.reports.database.migrations.versions"
    kinds = importlib.import_module(f"{versions}.0026_coverage_over_all_ops").KINDS
    places = importlib.import_module(f"{versions}.0011_coverage_and_places").PLACES
    add_alias(url, op_id("old"), op_id("add"), "the same op")
    with open_database(url) as connection:
        for table, statement in (("night_kinds", kinds), ("night_change_models", places)):
            rows = sa.text(f"SELECT * FROM {table} ORDER BY 1, 2, 3, 4")
            counted = connection.execute(rows).all()
            connection.execute(sa.text(f"DELETE FROM {table}"))
            connection.execute(sa.text(statement))
            assert connection.execute(rows).all() == counted != []
