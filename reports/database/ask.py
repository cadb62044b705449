"""Runs SQL and stored questions (reports/database/queries/*.sql) on the results database, read-only."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from opscope.base.visible_text import one_line
from opscope.harness.record.errors import InputError, closest
from opscope.reports.database.reading import read_database
from opscope.reports.database.reading_statement import confine

QUERIES = Path(__file__).parent / "queries"


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
        text = path.read_text(encoding="utf-8")
        by_name[path.stem] = Question(path.stem, text.partition("\n")[0].removeprefix("--").strip(), text)
    return by_name


def text_of(query: str) -> str:
    """Returns the SQL of the stored question named `query`, or `query` if it is SQL. Raises InputError if unknown."""
    stored = questions()
    if query in stored:
        return stored[query].sql
    if query.replace("_", "").replace("-", "").isalnum():
        raise InputError("QUERY", "SQL or the name of a stored question", f"`{query}`", closest(query, stored))
    return query


def ask(url: str, query: str, where: str = "--db") -> Answer:
    """Runs SQL or a stored question. Raises InputError for bad SQL, for what does more than to read the results, and
    for SQL that returns no rows."""
    text = text_of(query)
    with read_database(url, where) as connection:
        confine(connection, text)
        # The driver gets the text unchanged: in a query, % and : are SQL, not parameters.
        answer = connection.execution_options(no_parameters=True).exec_driver_sql(text)
        if not answer.returns_rows:
            raise InputError("QUERY", "a query that returns rows", "a statement without rows", "SELECT ...")
        return Answer(tuple(answer.keys()), tuple(tuple(row) for row in answer))


def as_csv(answer: Answer) -> str:
    """The answer as CSV with a header; NULL is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([one_line(column) for column in answer.columns])
    writer.writerows([_cell(value) for value in row] for row in answer.rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    value = _json(value)
    text = json.dumps(value) if isinstance(value, list | dict) else value
    return one_line(text) if isinstance(text, str) else text


def _json(value: Any) -> Any:
    """Converts a driver's value for JSON: PostgreSQL returns sums as decimals and times as objects."""
    match value:
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
