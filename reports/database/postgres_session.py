"""Asks one query of a PostgreSQL server, without SQLAlchemy, whose import takes longer than most queries.

Whatever is not as expected gives no answer here; reports/database/reading.py then tries the same and says why.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opscope.base.server_connection import CANCELLING, connect
from opscope.reports.database.files import head
from opscope.reports.database.reading_statement import CURSORS, confine_postgresql, first_word

_PLAIN = re.compile(r"postgresql(?:\+psycopg)?(://[^@\s]*@?[^@\s]*)\Z")
"""A URL that SQLAlchemy and PostgreSQL's own library read alike: one without another driver, and with one @ at most."""
ANSWERS_WITHIN = 3
"""Seconds for a server to answer. reports/database/reading.py waits longer, and says who did not answer."""
AT_ONCE = 10_000
"""Rows that the server sends together."""


def is_plain(url: str) -> bool:
    """Whether `url` is of a PostgreSQL server and needs nothing that only SQLAlchemy knows."""
    return _PLAIN.match(url) is not None


@contextmanager
def reading(url: str, seconds: float) -> Iterator[Any]:
    """Opens one read-only transaction. Raises ImportError without the driver, psycopg.Error if there is no server, or
    none that answers within `seconds`, which its own limit may be."""
    conninfo = "postgresql" + _PLAIN.sub(r"\1", url)
    timeout: dict[str, Any] = {} if "connect_timeout" in url else {"connect_timeout": ANSWERS_WITHIN}
    # A prepared statement is one statement: a query cannot end the read-only transaction and go on after it.
    with connect(seconds + CANCELLING, conninfo, prepare_threshold=0, **timeout) as connection:
        connection.read_only = True
        yield connection


def limits(seconds: float) -> tuple[str, str]:
    """Settings of a transaction whose statements may take `seconds`, and whose cursors are read to their end: planned
    for their first rows, which is PostgreSQL's default, a question of 0.1 s takes 1 s."""
    return (f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}", "SET LOCAL cursor_tuple_fraction = 1")


def ask(url: str, text: str, seconds: float, most: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]]] | None:
    """The columns and at most `most` + 1 rows of a statement that reads; None if PostgreSQL refuses anything.

    Raises InputError for a statement that could do more than to read, and TimeoutError once `seconds` are over.
    """
    try:
        import psycopg  # pyright: ignore[reportMissingImports] - an extra
    except ImportError:
        return None
    end = time.monotonic() + seconds
    try:
        with reading(url, seconds) as connection:
            if connection.execute("SELECT version_num FROM alembic_version").fetchall() != [(head(),)]:
                return None
            for setting in limits(seconds):
                connection.execute(setting.encode())
            confine_postgresql(connection, text)
            return _answer(connection, text, end, most)
    except psycopg.errors.QueryCanceled as error:
        raise TimeoutError from error
    except psycopg.Error as error:
        if time.monotonic() > end:
            raise TimeoutError from error
        return None


def _answer(connection: Any, text: str, end: float, most: int) -> Any:
    # A cursor of the server holds back what nobody reads any more; EXPLAIN and SHOW can have none.
    streamed = first_word(text, nested=True).upper() in CURSORS
    with connection.cursor("answer") if streamed else connection.cursor() as cursor:
        cursor.execute(text.encode())
        if cursor.description is None:
            return None
        rows: list[tuple[Any, ...]] = []
        while len(rows) <= most and (part := cursor.fetchmany(AT_ONCE)):
            rows.extend(part)
            if time.monotonic() > end:  # the server's own limit ends one part alone
                raise TimeoutError
        return tuple(column.name for column in cursor.description), rows
