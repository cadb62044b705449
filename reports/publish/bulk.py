"""Inserts many rows at once: COPY in PostgreSQL, one prepared statement in SQLite, both past SQLAlchemy's rows.

Values are those of Python; what a column needs (JSON as text, times in UTC) is done here, once per column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from opscope.reports.database.database import DamagedValueError
from opscope.reports.records.columns import Utc, plain


def _encodable(value: Any) -> Any:
    """Converts a value that msgspec cannot encode."""
    plain_value = plain(value)
    if plain_value is value:
        raise TypeError(f"no JSON of a {type(value).__name__}")
    return plain_value


_ENCODE = msgspec.json.Encoder(enc_hook=_encodable).encode
NUL = b"\\u0000"
"""How JSON writes a NUL, which PostgreSQL's type refuses."""


def insert(
    connection: sa.Connection, table: sa.Table, rows: Iterable[Sequence[Any]], *, into: str = "", clean: bool = False
) -> int:
    """Inserts rows, each with a value for every column of `table` in its order; how many there were.

    `into`: a temporary table with these columns, in place of `table` itself; `clean`: every text is a plain str
    without a NUL, as quick_records.py reads them.
    """
    dialect = connection.dialect
    kinds = [_converter(column.type, dialect.name, clean) for column in table.columns]
    names = ", ".join(dialect.identifier_preparer.quote(column.name) for column in table.columns)
    places = [(place, convert) for place, convert in enumerate(kinds) if convert is not None]
    count = 0

    def converted() -> Iterator[Sequence[Any]]:
        nonlocal count
        for row in rows:
            count += 1
            if not places:
                yield row
                continue
            values = list(row)
            for place, convert in places:
                if values[place] is not None:
                    values[place] = convert(values[place])
            yield values

    driver: Any = connection.connection.cursor()
    try:
        if dialect.name == "postgresql":
            with driver.copy(f"COPY {into or table.name} ({names}) FROM STDIN") as copy:
                for values in converted():
                    copy.write_row(values)
        else:
            slots = ", ".join("?" * len(kinds))
            driver.executemany(f"INSERT INTO {into or table.name} ({names}) VALUES ({slots})", converted())
    except Exception as error:
        raise _wrapped(connection, error) from error
    finally:
        driver.close()
    return count


def _wrapped(connection: sa.Connection, error: Exception) -> Exception:
    """Wraps a driver's error in SQLAlchemy's, so that it is reported like any other."""
    dbapi = connection.dialect.dbapi
    if dbapi is not None and isinstance(error, dbapi.Error):
        return DBAPIError.instance("COPY or INSERT", None, error, dbapi.Error, dialect=connection.dialect)
    return error


def _converter(kind: Any, dialect: str, clean: bool) -> Callable[[Any], Any] | None:
    """The function that converts a Python value for the driver; None if no conversion is needed."""
    if isinstance(kind, sa.JSON):
        return json_text
    if isinstance(kind, sa.Text):
        return None if clean else _text
    if isinstance(kind, sa.Double):
        return _real
    if isinstance(kind, Utc):
        return _utc if dialect == "postgresql" else _utc_text
    return None


def json_text(value: Any) -> str:
    """JSON that both databases accept: without NaN and NUL."""
    text = _ENCODE(value)
    return (_ENCODE(plain(value)) if NUL in text else text).decode()


def _text(value: str) -> str:
    text = str(value)  # a member of an enumeration is its value, whatever the driver makes of enumerations
    return text.replace("\0", "\\0") if "\0" in text else text


def _real(value: float) -> float | None:
    if not isinstance(value, int | float):  # of rows that SQLite had
        raise DamagedValueError(f"expected a number, got {value!r:.80}")
    return value if math.isfinite(value) else None


def _utc(value: datetime) -> datetime:
    if value.tzinfo is UTC:
        return value
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def _utc_text(value: datetime) -> str:
    """As SQLAlchemy stores times in SQLite."""
    return _utc(value).isoformat(" ", "microseconds")[:26]
