"""Every query of the results ends in time, on both databases, and no value of SQLite's fills the memory."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa

from opscope.dashboards.home import ROOM
from opscope.reports.tests import postgres_server

sys.path.insert(0, str(ROOM / "inside"))  # as Superset's configuration does
import query_limits  # type: ignore[import-not-found]

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT {} FROM c"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    monkeypatch.setattr(query_limits, "SECONDS", 0.02)
    with closing(sqlite3.connect(":memory:", factory=query_limits.LimitedConnection)) as one:
        yield one


# quick: a query with many rows, and one whose only row is a long step; COUNT(*) has neither
@pytest.mark.parametrize(
    "what", [pytest.param("COUNT(*)", marks=pytest.mark.slow), "n", "SUM(LENGTH(HEX(RANDOMBLOB(1000000))))"]
)
def test_a_query_without_end_is_stopped(connection: sqlite3.Connection, what: str) -> None:
    began = time.monotonic()
    for _ in range(2):  # the connection is as good as before
        with pytest.raises(sqlite3.OperationalError, match=r"the query took longer than 0\.02 s, so it was stopped"):
            connection.cursor().execute(ENDLESS.format(what)).fetchall()
    assert time.monotonic() - began < 40
    assert connection.cursor().execute("SELECT 1").fetchall() == [(1,)]


def test_a_connection_that_waited_is_not_stopped(connection: sqlite3.Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT 1").fetchall()
    time.sleep(0.04)
    assert cursor.execute("SELECT COUNT(*) FROM (SELECT 1 UNION SELECT 2)").fetchall() == [(2,)]


@pytest.mark.skipif(not hasattr(sqlite3.Connection, "setlimit"), reason="Python 3.11 sets limits")
@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT LENGTH(HEX(RANDOMBLOB(500000000)))", "too big"),
        ("SELECT 'a' LIKE '" + "%a" * 2000 + "'", "too complex"),
        ("ATTACH ':memory:' AS other", "too many attached"),
    ],
)
def test_queries_without_a_time_limit_are_small(connection: sqlite3.Connection, query: str, why: str) -> None:
    with pytest.raises(sqlite3.Error, match=why):
        connection.cursor().execute(query).fetchall()


def test_sqlalchemy_opens_such_connections_without_regular_expressions() -> None:
    uri, options = query_limits.limited(sa.make_url("sqlite://"), {})
    engine = sa.create_engine(uri, **options)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        with pytest.raises(sa.exc.OperationalError, match="no such function: REGEXP"):
            connection.exec_driver_sql("SELECT 'a' REGEXP '(a+)+$'")
    engine.dispose()


def test_postgresql_keeps_its_other_options() -> None:
    uri = sa.make_url("postgresql+psycopg2://h/d").update_query_dict({"options": "-c timezone=UTC"})
    _, options = query_limits.limited(uri, {"connect_args": {"sslmode": "require"}})
    assert options["connect_args"] == {"sslmode": "require", "options": "-c timezone=UTC -c statement_timeout=30000"}


@pytest.mark.slow
def test_postgresql_stops_a_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_limits, "SECONDS", 0.1)
    uri, options = query_limits.limited(sa.make_url(postgres_server.shared().database()), {})
    engine = sa.create_engine(uri, **options)
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError, match="statement timeout"):
        connection.exec_driver_sql("SELECT pg_sleep(20)")
    engine.dispose()
