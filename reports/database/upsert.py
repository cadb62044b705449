"""Inserts rows into a table, or updates those whose key it already has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa


def upsert(
    connection: sa.Connection,
    table: sa.Table,
    rows: Sequence[dict[str, Any]],
    *,
    least: Sequence[str] = (),
    most: Sequence[str] = (),
    first: Sequence[str] = (),
) -> None:
    """Inserts `rows`; a row that is already there gets the new values.

    Columns in `least` and `most` keep the smaller and the larger value; columns in `first` are those of the row whose
    `least` are smaller, whichever came first (of equal ones, the row whose `first` are). Rows are written in the order
    of their keys, so that two publishers at once wait for each other instead of deadlocking.
    """
    keys = [column.name for column in table.primary_key]
    ordered = sorted(rows, key=lambda row: tuple(row[key] for key in keys))
    if ordered:
        connection.execute(_statement(table, connection.dialect.name, tuple(least), tuple(most), tuple(first)), ordered)


@cache
def _statement(
    table: sa.Table, dialect: str, least: Sequence[str], most: Sequence[str], first: Sequence[str]
) -> sa.Executable:
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    lesser, greater = ("least", "greatest") if dialect == "postgresql" else ("min", "max")
    statement = insert(table)
    updates: dict[str, Any] = {}
    order = (*least, *first)
    earlier = sa.tuple_(*(statement.excluded[name] for name in order)) < sa.tuple_(*(table.c[name] for name in order))
    for column in table.columns:
        new = statement.excluded[column.name]
        if column.name in least:
            updates[column.name] = getattr(sa.func, lesser)(column, new)
        elif column.name in most:
            updates[column.name] = getattr(sa.func, greater)(column, new)
        elif column.name in first:
            updates[column.name] = sa.case((earlier, new), else_=column)
        elif not column.primary_key:
            updates[column.name] = new
    return statement.on_conflict_do_update(index_elements=[*table.primary_key], set_=updates)
