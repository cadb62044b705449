"""Database columns derived from the fields of a record, so that no field is declared twice.

A field's type decides its column; types without a scalar column (tuples, maps, nested records) become JSON. `plain`
removes what one of the databases refuses from every value: NaN in JSON, NUL in text.
"""

from __future__ import annotations

import math
import types
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Union, get_args, get_origin

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.types import TypeDecorator


class Utc(TypeDecorator[datetime]):
    """A point in time: with its zone in PostgreSQL, as naive UTC in SQLite, always aware in Python."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> Any:
        """The database's own type: `TIMESTAMP WITH TIME ZONE` where it exists."""
        return dialect.type_descriptor(sa.DateTime(timezone=dialect.name == "postgresql"))

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Converts a value for the database. A time without a zone counts as UTC."""
        if value is None:
            return None
        aware = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return aware if dialect.name == "postgresql" else aware.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Converts a value from the database to UTC."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


TEXT, COUNT, REAL, FLAG, JSON, TIME = sa.Text(), sa.BigInteger(), sa.Double(), sa.Boolean(), sa.JSON(), Utc()
"""Kinds of columns."""


def of(
    kind: Any, names: str, *more: sa.ForeignKey, key: bool = False, null: bool = False, **options: Any
) -> list[sa.Column[Any]]:
    """Columns of one kind, whose names a text has: keys, or such as may be NULL."""
    return [
        sa.Column(name, kind, *more, primary_key=key, nullable=null, autoincrement=False, **options)
        for name in names.split()
    ]


SCALARS: tuple[tuple[type, Any], ...] = (
    *((bool, FLAG), (StrEnum, TEXT), (str, TEXT)),
    *((int, COUNT), (float, REAL), (datetime, TIME)),
)
"""Python type of a field -> column type; bool comes before int, because it is a subclass of int."""


BEFORE = "before"
"""Key in the `info` of a column: the value that a migration which adds the column gives existing rows if it may not be
NULL."""


def column(name: str, annotation: Any, default: Any = None, *, key: bool = False) -> sa.Column[Any]:
    """The column of a field: scalar if its type has a scalar column, else JSON; nullable if the field may be None."""
    options = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    options = [get_args(option)[0] if get_origin(option) is Annotated else option for option in options]
    kinds = [option for option in options if option is not type(None)]
    kind = next((sql for python, sql in SCALARS if isinstance(kinds[0], type) and issubclass(kinds[0], python)), None)
    before = "[]" if default == () else default
    info = {BEFORE: before} if isinstance(before, str | int | float) else {}
    return sa.Column(
        name, JSON if kind is None else kind, primary_key=key, nullable=len(kinds) < len(options), info=info
    )


def columns(record: type[BaseModel], *, keys: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> list[Any]:
    """The columns of all fields of `record` except those in `without`, in the order of the fields."""
    return [
        column(name, field.annotation, field.default, key=name in keys)
        for name, field in record.model_fields.items()
        if name not in without
    ]


AS_IS = frozenset({int, bool, type(None)})
"""Types whose values every database accepts."""


def plain(value: Any) -> Any:
    """Converts `value` so that every database accepts it: records to maps, NaN and infinities to None, NUL to `\\0`."""
    # This runs for each field of each use in a run, and a run may have 200,000 uses: the common types come first.
    kind = type(value)
    if kind is str:
        return value.replace("\0", "\\0") if "\0" in value else value
    if kind in AS_IS:
        return value
    if kind is tuple or kind is list:
        return [plain(item) for item in value]
    if isinstance(value, BaseModel):
        return {name: plain(item) for name, item in value.__dict__.items()}
    match value:
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float():
            return value if math.isfinite(value) else None
        case str():
            return str(value).replace("\0", "\\0")
        case _:
            return value
