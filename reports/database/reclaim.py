"""Gives the disk space of removed rows back: neither SQLite nor PostgreSQL does so when rows are deleted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from opscope.base.server_connection import bounded
from opscope.reports.database.database import ADVISORY_LOCK, DatabaseAwayError, driver_reason, parse_url, shown
from opscope.reports.database.schema import METADATA

WORTH = 0.05
"""Share of a SQLite file that has to be free before it is rewritten; smaller gaps are filled by the next nights."""
WAIT_SECONDS = 30
"""How long it waits for whoever reads or writes the database."""
TABLE_SECONDS = 6 * 3600.0
"""How long PostgreSQL may take to rewrite one table."""
COPIES = 2
"""SQLite writes what is left to a temporary file, and while it copies that back it keeps the old pages in a journal."""


def reclaim(url: str, removed: bool) -> None:
    """Rewrites the database without gaps: a SQLite file that has some, PostgreSQL's tables if rows were `removed`.

    Nothing else can read or write meanwhile. Raises DatabaseAwayError if there is no room, or if somebody else does not
    let go of the database in time; it is then as before, only as large as before.
    """
    parsed = parse_url(url, "--db")
    server = parsed.get_backend_name() == "postgresql"
    waits = {} if server else {"timeout": WAIT_SECONDS}
    engine = sa.create_engine(parsed, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool, connect_args=waits)
    bounded(engine, TABLE_SECONDS)
    try:
        with engine.connect() as connection:
            if not server:
                _rewrite_file(connection)
            elif removed:
                _rewrite_tables(connection)
    except SQLAlchemyError as error:
        hint = "`opscope db prune` again later" if not server else "`VACUUM FULL` when nobody uses the database"
        reason = driver_reason(error, parsed)
        raise DatabaseAwayError("--db", f"to give disk space of {shown(parsed)} back", reason, hint) from error
    finally:
        engine.dispose()


def _rewrite_file(connection: sa.Connection) -> None:
    file = connection.exec_driver_sql("PRAGMA database_list").all()[0][2]
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    if not file or free < WORTH * pages:
        return
    folder, temporary, left = Path(file).parent, _temporary_folder(), (pages - free) * size
    together = folder.stat().st_dev == temporary.stat().st_dev
    for place in {folder, *(() if together else (temporary,))}:
        needed, there = left * (COPIES if together else 1), shutil.disk_usage(place).free
        if there < needed:
            raise DatabaseAwayError(
                "--db",
                f"{needed / 1e6:,.0f} MB free in {place} to give {free * size / 1e6:,.0f} MB of the file back",
                f"{there / 1e6:,.0f} MB",
                "`opscope db prune` again with more room, or SQLITE_TMPDIR on another disk",
            )
    connection.exec_driver_sql("VACUUM")


def _temporary_folder() -> Path:
    """Where SQLite writes temporary files: the first of the places in its documentation that can be written."""
    named = [os.environ.get(name, "") for name in ("SQLITE_TMPDIR", "TMPDIR")]
    places = [Path(place) for place in (*named, "/var/tmp", "/usr/tmp", "/tmp") if place]
    usable = (place for place in places if place.is_dir() and os.access(place, os.W_OK | os.X_OK))
    return next(usable, Path.cwd())


def _rewrite_tables(connection: sa.Connection) -> None:
    """Publishers wait at the lock that they take too, and so does a second prune."""
    connection.exec_driver_sql(f"SET lock_timeout = '{WAIT_SECONDS}s'")
    connection.execute(sa.select(sa.func.pg_advisory_lock(ADVISORY_LOCK)))
    for table in METADATA.sorted_tables:
        connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {table.name}")
