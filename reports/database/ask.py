"""Runs SQL and stored questions (reports/database/queries/*.sql) on the results database, read-only."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.server_connection import CANCELLING
from opscope.base.visible_text import one_line
from opscope.harness.record.causes import cause_named
from opscope.harness.record.errors import InputError, closest
from opscope.reports.database import postgres_session, sqlite_file
from opscope.reports.database.endings import with_endings
from opscope.reports.database.files import default_url
from opscope.reports.database.reading_statement import CURSORS, confine, first_word, refuse_writing

if TYPE_CHECKING:
    import sqlalchemy as sa

QUERIES = Path(__file__).parent / "queries"

SECONDS = 60.0
"""How long a query may take by default: one that calls itself may have no end."""
MOST_ROWS = 5_000_000
"""Rows of the longest answer. They are held in memory, at some 100 bytes each and more."""
AT_ONCE = 10_000
"""Rows that PostgreSQL sends together."""


@dataclass(frozen=True)
class Question:
    """A stored query: its name, the question in its first line, and the SQL."""

    name: str
    asks: str
    sql: str


@dataclass(frozen=True)
class Answer:
    """The columns and rows that a query returned."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def records(self) -> list[dict[str, Any]]:
        """One map per row, with values that JSON can represent."""
        return [{name: _json(value) for name, value in zip(self.columns, row, strict=True)} for row in self.rows]


def questions() -> dict[str, Question]:
    """The stored questions by name."""
    by_name = {}
    for path in sorted(QUERIES.glob("*.sql")):
        text = with_endings(path.read_text(encoding="utf-8"))
        by_name[path.stem] = Question(path.stem, text.partition("\n")[0].removeprefix("--").strip(), text)
    return by_name


def text_of(query: str) -> str:
    """Returns the SQL of the stored question named `query`, or `query` if it is SQL. Raises InputError if unknown."""
    if not query.replace("_", "").replace("-", "").isalnum():
        return query
    stored = questions()
    if query not in stored:
        raise InputError("QUERY", "SQL or the name of a stored question", f"`{query}`", closest(query, stored))
    return stored[query].sql


def ask(url: str | None, query: str, where: str = "--db", seconds: float = SECONDS) -> Answer:
    """Runs SQL or a stored question on the database at `url`, by default that of runs in this folder. Raises InputError
    for bad SQL, for what does more than to read the results, for SQL that returns no rows or more than `MOST_ROWS`, and
    once `seconds` are over."""
    url, text = url or default_url(), text_of(query)
    answer = None
    try:
        if path := sqlite_file.path_of(url):
            refuse_writing("sqlite", text)
            answer = sqlite_file.ask(path, text, seconds, MOST_ROWS)
        elif postgres_session.is_plain(url):
            refuse_writing("postgresql", text)
            answer = postgres_session.ask(url, text, seconds, MOST_ROWS)
    except TimeoutError as error:
        raise _too_long(seconds) from error
    if answer is None:
        return _ask_by_sqlalchemy(url, text, where, seconds)
    return Answer(answer[0], tuple(_at_most(answer[1])))


def _ask_by_sqlalchemy(url: str, text: str, where: str, seconds: float) -> Answer:
    from opscope.reports.database.reading import read_database

    with read_database(url, where) as connection, _limited(connection, seconds) as end:
        confine(connection, text)
        # The driver gets the text unchanged: in a query, % and : are SQL, not parameters. A cursor of the server holds
        # back what nobody reads any more; EXPLAIN and SHOW can have none.
        streamed = connection.dialect.name != "sqlite" and first_word(text, nested=True).upper() in CURSORS
        asked = connection.execution_options(no_parameters=True, stream_results=streamed, max_row_buffer=AT_ONCE)
        with _blaming_the_query(connection, text), asked.exec_driver_sql(text) as answer:
            if not answer.returns_rows:
                raise InputError("QUERY", "a query that returns rows", "a statement without rows", "SELECT ...")
            columns, rows = tuple(answer.keys()), []
            for part in answer.partitions(AT_ONCE):
                rows.extend(map(tuple, part))
                if time.monotonic() > end:
                    raise _too_long(seconds)
                _at_most(rows)
        return Answer(columns, tuple(rows))


_UNKNOWN_NAME = re.compile(r'(?:no such (column|table): |(column|relation) )"?([^"\s]+)')
"""How SQLite and PostgreSQL name what a query asks for and the database lacks."""


@contextmanager
def _blaming_the_query(connection: sa.Connection, text: str) -> Iterator[None]:
    """Raises InputError of the query where the database takes offence at its text, with the closest names of an unknown
    one; whatever else goes wrong is the database's. Views of another opscope lack names for their own reason."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import DBAPIError

    from opscope.reports.database.reading import has_todays_views

    try:
        yield
    except DBAPIError as error:
        connection.rollback()  # PostgreSQL answers nothing more in a transaction with an error
        if not (_is_of_text(error.orig) and has_todays_views(connection)):
            raise
        reason = " ".join(str(error.orig).split())
        unknown, hint = _UNKNOWN_NAME.search(reason), "opscope sql"
        if unknown:
            database = inspect(connection)
            names = [*database.get_table_names(), *database.get_view_names()]
            if "column" in unknown.groups():
                asked_of = [name for name in names if re.search(rf"\b{re.escape(name)}\b", text)]
                names = [column["name"] for name in asked_of for column in database.get_columns(name)]
            hint = closest(unknown[3].rpartition(".")[2], set(names), most=5) or hint
        raise InputError("QUERY", "SQL that this database can run", reason, hint) from error


def _is_of_text(error: BaseException | None) -> bool:
    """Whether a driver's error is of the statement's text, whatever the database holds."""
    if isinstance(error, sqlite3.Error | sqlite3.Warning):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG)
    syntax_or_access = "42"  # class of PostgreSQL's SQLSTATE
    return (getattr(error, "sqlstate", None) or "").startswith(syntax_or_access)


def _at_most(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    if len(rows) > MOST_ROWS:
        raise InputError("QUERY", f"at most {MOST_ROWS:,} rows", "more", "a LIMIT, or opscope export")
    return rows


def of_cause(answer: Answer, beginning: str, where: str) -> Answer:
    """Only the rows of the one cause that begins so. Raises InputError where there is none, or no column of causes."""
    column = next((place for place, name in enumerate(answer.columns) if name in ("cause", "cluster")), None)
    if column is None:
        got = f"the columns {', '.join(answer.columns)}"
        raise InputError(where, "an answer with a column `cause` or `cluster`", got, "opscope sql failing_ops")
    cause = cause_named(beginning, (str(row[column] or "") for row in answer.rows), where)
    return Answer(answer.columns, tuple(row for row in answer.rows if row[column] == cause))


@contextmanager
def _limited(connection: sa.Connection, seconds: float) -> Iterator[float]:
    """Ends statements on `connection` once `seconds` are over, and raises InputError then. Yields the end, by
    time.monotonic: a cursor of the server ends only what fetches rows."""
    from sqlalchemy.exc import SQLAlchemyError

    end = time.monotonic() + seconds
    if connection.dialect.name == "sqlite":
        driver: Any = connection.connection.dbapi_connection
        driver.set_progress_handler(lambda: time.monotonic() > end, 100_000)  # some hundred times a second
    else:
        for setting in postgres_session.limits(seconds):
            connection.exec_driver_sql(setting)
        if connection.dialect.driver == "psycopg":
            connection.connection.dbapi_connection.silent = seconds + CANCELLING  # type: ignore[union-attr]
    try:
        yield end
    except SQLAlchemyError as error:
        if time.monotonic() < end:
            raise
        raise _too_long(seconds) from error


def _too_long(seconds: float) -> InputError:
    return InputError("QUERY", f"an answer within {seconds:g} s", "none", "a narrower query, or --timeout SECONDS")


FORMULA = ("=", "+", "-", "@")
"""How a text begins that spreadsheets would compute; a quote in front of it makes it a text for all of them."""


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns and rows as CSV with a header; NULL is an empty field, and no text is a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([one_line(column) for column in columns])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return buffer.getvalue()


_STORED_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\Z")
"""A time as SQLAlchemy stores it in SQLite."""


def _cell(value: Any) -> Any:
    value = _json(value)
    text = json.dumps(value) if isinstance(value, list | dict) else value
    if not isinstance(text, str):
        return text
    text = one_line(text)
    return f"'{text}" if text.startswith(FORMULA) else text


def _json(value: Any) -> Any:
    """Converts a driver's value for JSON: PostgreSQL returns sums as decimals and times as objects, SQLite times as
    texts that do not say that they are UTC."""
    match value:
        case str() if _STORED_TIME.match(value):
            return datetime.fromisoformat(value).replace(tzinfo=UTC).isoformat()
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date():
            return value.isoformat()
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return value


def shown_rows(answer: Answer, most: int) -> Sequence[tuple[Any, ...]]:
    """The rows that a terminal shows."""
    return [tuple(_json(value) for value in row) for row in answer.rows[:most]]
