"""What is said to PostgreSQL, word by word, where there is no server: roles, sizes, rows by COPY."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from opscope.reports.database import reading_role
from opscope.reports.publish import bulk, upkeep
from opscope.reports.records.columns import Utc


class Server:
    """A connection that answers what it is asked and notes what it is told."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.expected = answers, list[str]()
        self.dialect: Any = postgresql.dialect()  # type: ignore[no-untyped-call]

    def scalar(self, statement: Any, parameters: Any = None) -> Any:
        return next(answer for word, answer in self.answers.items() if word in str(statement))

    def execution_options(self, **options: bool) -> Server:
        assert options == {"no_parameters": True}
        return self

    def exec_driver_sql(self, statement: str) -> None:
        self.expected.append(statement)


READS = [
    'ALTER ROLE "reader" SET default_transaction_read_only = on',
    "ALTER ROLE \"reader\" SET statement_timeout = '60s'",
    'GRANT CONNECT ON DATABASE "results" TO "reader"',
    'GRANT USAGE ON SCHEMA "public" TO "reader"',
    'GRANT SELECT ON ALL TABLES IN SCHEMA "public" TO "reader"',
    'ALTER DEFAULT PRIVILEGES IN SCHEMA "public" GRANT SELECT ON TABLES TO "reader"',
]
NEW, PASSWORD = 'CREATE ROLE "reader" LOGIN', "ALTER ROLE \"reader\" PASSWORD 'a%b'"


@pytest.mark.parametrize(
    ("exists", "password", "expected"),
    [
        (None, None, [NEW, *READS]),
        (1, None, READS),
        (None, "a%b", [NEW, PASSWORD, *READS]),
        (1, "a%b", [PASSWORD, *READS]),
    ],
)
def test_a_role_may_read_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, exists: int | None, password: str | None, expected: list[str]
) -> None:
    server = Server(pg_roles=exists, current_database="results", current_schema="public")

    @contextlib.contextmanager
    def opened(url: str, where: str) -> Iterator[Server]:
        yield server

    def literal(text: str) -> Any:
        return SimpleNamespace(as_string=lambda _: f"'{text}'")

    monkeypatch.setattr(reading_role, "open_database", opened)
    monkeypatch.setitem(sys.modules, "psycopg", SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "psycopg.sql", SimpleNamespace(Literal=literal))  # type: ignore[arg-type]
    if password:
        monkeypatch.setenv("READER", password)
    url = "postgresql://me:secret@away/results"
    line = reading_role.read_only_role(url, "reader", "READER" if password else None)
    assert server.expected == expected
    assert line.startswith("role reader may read postgresql")
    assert line.endswith(" (new)") is (exists is None)
    assert "secret" not in line


@pytest.mark.parametrize(("answer", "size"), [(12345, 12345), (None, 0)])
def test_the_size_of_a_database_on_a_server(answer: int | None, size: int) -> None:
    connection: Any = Server(pg_database_size=answer)
    assert upkeep._size(connection, "postgresql://away/results") == size


def test_rows_are_copied() -> None:
    written: list[list[Any]] = []
    expected: list[str] = []

    class Driver:
        @contextlib.contextmanager
        def copy(self, statement: str) -> Iterator[Any]:
            expected.append(statement)
            yield SimpleNamespace(write_row=lambda values: written.append(list(values)))

        def close(self) -> None:
            expected.append("closed")

    server: Any = Server()
    server.connection = SimpleNamespace(cursor=Driver)
    columns = ("a", sa.Double()), ("b", sa.Text()), ("c", sa.JSON()), ("d", Utc()), ("e", sa.BigInteger())
    table = sa.Table("some", sa.MetaData(), *[sa.Column(name, kind) for name, kind in columns])
    noon = datetime(2026, 11, 1, 12)
    rows = [(math.nan, "x\0", {"k": 1}, noon, 7), (1.5, None, [], None, None)]
    assert bulk.insert(server, table, rows) == 2
    assert expected == ["COPY some (a, b, c, d, e) FROM STDIN", "closed"]
    assert written == [[None, "x\\0", '{"k":1}', noon.replace(tzinfo=UTC), 7], [1.5, None, "[]", None, None]]
    assert bulk.insert(server, table, [], into="staged") == 0
    assert expected[2].startswith("COPY staged (")
