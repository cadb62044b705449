"""Maintains a results database: prunes old nights, creates read-only roles, measures sizes, adds aliases of ops."""

from __future__ import annotations

import os
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


def read_only_role(url: str, name: str, password_env: str | None = None) -> str:
    """Makes a PostgreSQL role that may read the results and nothing else; what was done, in one line.

    Raises InputError for SQLite, whose readers open the file read-only, and for a name that is no plain word.
    """
    if parse_url(url, "--db").get_backend_name() != "postgresql":
        hint = "sqlite:///file:PATH?mode=ro&uri=true, which reads without a role"
        raise InputError("--db", "a PostgreSQL database", "SQLite", hint)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise InputError("NAME", "letters, digits and underscores", f"`{name}`", "opscope_reader")
    password = None
    if password_env is not None:
        password = os.environ.get(password_env)
        if not password:
            raise InputError("--password-env", "a variable that is set", f"no `{password_env}`", f"{password_env}=...")
    with open_database(url, "--db") as connection:
        quote = connection.dialect.identifier_preparer.quote_identifier
        has_role = connection.scalar(sa.text("SELECT 1 FROM pg_roles WHERE rolname = :name"), {"name": name})
        database = quote(str(connection.scalar(sa.text("SELECT current_database()"))))
        schema = quote(str(connection.scalar(sa.text("SELECT current_schema()"))))
        quoted = quote(name)
        steps = [
            *([] if has_role else [f"CREATE ROLE {quoted} LOGIN"]),
            f"ALTER ROLE {quoted} SET default_transaction_read_only = on",
            f"ALTER ROLE {quoted} SET statement_timeout = '60s'",
            f"GRANT CONNECT ON DATABASE {database} TO {quoted}",
            f"GRANT USAGE ON SCHEMA {schema} TO {quoted}",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {quoted}",
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {quoted}",
        ]
        if password is not None:
            # SQLAlchemy's literals double percent signs, for drivers that take parameters.
            from psycopg.sql import Literal  # pyright: ignore[reportMissingImports] - an extra

            literal = Literal(password).as_string(None)
            steps.insert(0 if has_role else 1, f"ALTER ROLE {quoted} PASSWORD {literal}")
        plainly = connection.execution_options(no_parameters=True)  # a percent sign in a password is no parameter
        for step in steps:
            plainly.exec_driver_sql(step)
    return f"role {name} may read {shown(parse_url(url))}" + ("" if has_role else " (new)")


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
