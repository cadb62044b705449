"""Charts group by the column below a link: the rows are the same, and nothing else of a statement changes."""

from __future__ import annotations

import sqlite3
import sys

import pytest

from opscope.dashboards import links
from opscope.dashboards.superset import ROOM
from opscope.dashboards.tests.test_links import NASTY

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does

from grouped_links import by_columns  # type: ignore[import-not-found]

OP, TEXT = links.op("op", ""), links.text("error")


@pytest.fixture
def connection() -> sqlite3.Connection:
    """Each nasty text twice as an op's name, with two errors."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE ops (op TEXT, error TEXT, uses INTEGER)")
    rows = [(name, error, place) for name in NASTY for place, error in enumerate((NASTY[1], NASTY[3], NASTY[1]))]
    connection.executemany("INSERT INTO ops VALUES (?, ?, ?)", rows)
    return connection


def statement(shown: str, grouped: str, end: str = "ORDER BY op_link, error_text\n LIMIT 1000") -> str:
    return f"SELECT {shown}, SUM(uses) AS uses \nFROM ops \nWHERE uses >= 0 GROUP BY {grouped} {end}"


def test_rows_are_the_same_and_no_link_is_sorted(connection: sqlite3.Connection) -> None:
    before = statement(f"{OP} AS op_link, {TEXT} AS error_text", f"{OP}, {TEXT}")
    after = by_columns(before)
    assert after == statement(f"{OP} AS op_link, {TEXT} AS error_text", "op, error")
    rows = connection.execute(after).fetchall()
    assert rows == connection.execute(before).fetchall()
    assert len(rows) == 2 * len(NASTY)


def test_texts_with_arrows_are_grouped_by_their_column() -> None:
    types = links.text("types", arrows=True)
    before = f"SELECT {types} AS types_text, SUM(uses) AS uses FROM ops GROUP BY {types} LIMIT 9"
    assert by_columns(before) == f"SELECT {types} AS types_text, SUM(uses) AS uses FROM ops GROUP BY types LIMIT 9"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {OP} AS op_link FROM ops ORDER BY {OP}",
        f"SELECT uses FROM ops GROUP BY {OP}, uses",
        f"SELECT n FROM (SELECT op, error, COUNT(*) AS n FROM ops GROUP BY op, error) WHERE {TEXT} = '<span>x</span>'",
        "SELECT op, ' GROUP BY ' AS words FROM ops",
    ],
)
def test_other_statements_stay(sql: str, connection: sqlite3.Connection) -> None:
    assert by_columns(sql, security_manager=None, database=None) == sql
    connection.execute(sql)


def test_supersets_configuration_has_it() -> None:
    assert "SQL_QUERY_MUTATOR = grouped_links.by_columns" in (ROOM / "inside" / "superset_config.py").read_text("utf-8")
