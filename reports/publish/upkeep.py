"""Maintains a results database: prunes old nights, measures sizes, adds aliases of ops."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.harness.record.errors import InputError
from opscope.reports.database.database import open_database, parse_url, schema_version, shown
from opscope.reports.database.reading import read_database, refuse_missing
from opscope.reports.database.rows import RELEASE, SELECTION
from opscope.reports.database.schema import (
    ERRORS,
    LIMITATIONS,
    METADATA,
    MODELS,
    MODULE_OPS,
    NIGHTS,
    OP_ALIAS,
    OP_TESTS,
    OPS,
    RUNS,
    USES,
)
from opscope.reports.database.schema_nights import NIGHT_SERIES
from opscope.reports.publish.counting import count_night, open_counted, selections

UNITS = {"h": 1 / 24, "d": 1, "w": 7}
OLDEST = 365_000
"""Days of the greatest age, a thousand years: dates begin with the year 1."""


def age_of(where: str, text: str) -> timedelta:
    """An age such as `180d`, `12w` or `36h`. Raises InputError for another text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([hdw])", text.strip())
    days = float(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < days <= OLDEST:
        raise InputError(where, "an age", f"`{text}`", "180d, 12w or 36h")
    return timedelta(days=days)


def prune(url: str, keep: timedelta, dry_run: bool = False, now: datetime | None = None) -> dict[str, int]:
    """Removes nights that started more than `keep` ago, and modules, ops and errors that nothing has any more.

    Nights of releases stay: they are of no time. How many nights, runs and op tests went; with `dry_run` would go.
    """
    before = (now or datetime.now(UTC)) - keep
    refuse_missing(url)
    with open_counted(url, "--db") as connection:
        aged = (NIGHTS.c.started < before) & (NIGHTS.c.kind != RELEASE)
        old = sa.select(NIGHTS.c.night_id).where(aged)
        nights = list(connection.scalars(old))
        removed = {
            "nights": len(nights),
            "runs": _count(connection, RUNS, RUNS.c.night_id.in_(old)),
            "op_tests": _count(connection, OP_TESTS, OP_TESTS.c.night_id.in_(old)),
        }
        if dry_run or not nights:
            return removed
        followers = connection.execute(
            sa.select(NIGHT_SERIES.c.night_id).where(
                NIGHT_SERIES.c.previous_night.in_(old), NIGHT_SERIES.c.started >= before
            )
        ).scalars()
        later = sorted(set(followers))
        connection.execute(sa.delete(RUNS).where(RUNS.c.night_id.in_(old)))
        connection.execute(sa.delete(NIGHTS).where(aged))
        # A run of selected ops counts where the whole run before it is gone.
        for night_id in [*later, *selections(connection, before)]:
            count_night(connection, night_id, "--db")
        _sweep(connection)
    return removed


def _count(connection: sa.Connection, table: sa.Table, which: Any) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table).where(which)) or 0


def _sweep(connection: sa.Connection) -> None:
    """Removes what no run refers to."""
    module_ids = sa.select(MODELS.c.module_id).where(MODELS.c.module_id.is_not(None))
    for table in (USES, MODULE_OPS):
        connection.execute(sa.delete(table).where(table.c.module_id.not_in(module_ids)))
    tested = sa.select(OP_TESTS.c.op_id).where(OP_TESTS.c.op_id == OPS.c.op_id).exists()
    used = sa.select(MODULE_OPS.c.op_id).where(MODULE_OPS.c.op_id == OPS.c.op_id).exists()
    connection.execute(sa.delete(OPS).where(~tested, ~used))
    seen = sa.select(OP_TESTS.c.op_id).where(OP_TESTS.c.error_signature == ERRORS.c.error_signature).exists()
    connection.execute(sa.delete(ERRORS).where(~seen))
    named = sa.select(OP_TESTS.c.op_id).where(OP_TESTS.c.expected == LIMITATIONS.c.limitation).exists()
    connection.execute(sa.delete(LIMITATIONS).where(~named))


def statistics(url: str) -> dict[str, Any]:
    """Rows per table, size in bytes, and the time that the nights cover."""
    with read_database(url) as connection:
        rows = {table.name: _count(connection, table, sa.true()) for table in METADATA.sorted_tables}
        counted = connection.execute(sa.select(NIGHTS.c.kind, sa.func.count()).group_by(NIGHTS.c.kind))
        kinds = {str(kind): int(count) for kind, count in counted}
        first, last = connection.execute(sa.select(sa.func.min(NIGHTS.c.started), sa.func.max(NIGHTS.c.started))).one()
        return {
            "database": shown(parse_url(url)),
            "schema": schema_version(connection),
            "bytes": _size(connection, url),
            "nights": kinds.get("night", 0) + kinds.get(RELEASE, 0),
            "runs_alone": kinds.get("run", 0) + kinds.get(SELECTION, 0),
            "first": str(first)[:16] if first else None,
            "last": str(last)[:16] if last else None,
            "rows": rows,
        }


def size_of(url: str) -> int:
    """Bytes of the database at `url`."""
    with read_database(url, "--db") as connection:
        return _size(connection, url)


def _size(connection: sa.Connection, url: str) -> int:
    if connection.dialect.name == "postgresql":
        return int(connection.scalar(sa.text("SELECT pg_database_size(current_database())")) or 0)
    path = parse_url(url).database
    return Path(path).stat().st_size if path and Path(path).is_file() else 0


def add_alias(url: str, old_id: str, new_id: str, reason: str) -> int:
    """Joins the history of two ids of one op; how many nights were counted again.

    Raises InputError where no op has the old id, or where the new one is itself an old one.
    """
    refuse_missing(url)
    with open_database(url, "--db") as connection:
        if connection.scalar(sa.select(OPS.c.op_id).where(OPS.c.op_id == old_id)) is None:
            raise InputError("OLD_ID", "an op of the database", f"`{old_id}`", "opscope sql 'SELECT op_id FROM ops'")
        chained = sa.select(OP_ALIAS.c.old_id).where((OP_ALIAS.c.old_id == new_id) | (OP_ALIAS.c.new_id == old_id))
        if old_id == new_id or connection.scalar(chained) is not None:
            raise InputError("NEW_ID", "an id that has no alias itself", f"`{new_id}`", "the newest id of both")
        connection.execute(sa.delete(OP_ALIAS).where(OP_ALIAS.c.old_id == old_id))
        connection.execute(sa.insert(OP_ALIAS), [{"old_id": old_id, "new_id": new_id, "reason": reason}])
        touched = sa.select(OP_TESTS.c.night_id).where(OP_TESTS.c.op_id.in_([old_id, new_id])).distinct()
        nights = connection.scalars(touched).all()
        ordered = sa.select(NIGHTS.c.night_id).where(NIGHTS.c.night_id.in_(nights)).order_by(NIGHTS.c.started)
        for night_id in connection.scalars(ordered).all():
            count_night(connection, night_id, "--db")
    return len(nights)
