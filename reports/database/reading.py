"""Opens the results database for reading, without creating, migrating or changing anything.

SQLite is opened as a read-only file, PostgreSQL in a read-only transaction. reports/database/database.py opens it for
writing.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from opscope.base.installing import install_command
from opscope.base.server_connection import READING, bounded
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import release_in
from opscope.harness.record.run_folders import newest_run
from opscope.reports.database.compiled_statements import SQLITE_STATEMENTS
from opscope.reports.database.database import (
    digest_of,
    driver_reason,
    has_views,
    parse_url,
    raise_if_damaged,
    refuse_foreign_schema,
    schema_version,
    shown,
    views,
)
from opscope.reports.database.files import default_url, file_url, head
from opscope.reports.database.sqlite_file import HINTS, LEFT_BEHIND, error_code, recover

RENEW = "opscope db upgrade"
"""What gives a database of an earlier opscope the schema and the views of this one."""
NIGHTLY = "opscope nightly"
"""What makes one for those who ask for nights."""


def database_url(url: str | None) -> str:
    """Returns `url`, or by default the URL of the database that runs in this folder publish to."""
    return url or default_url()


def exists(url: str) -> bool:
    """Whether there is a database to read. Only SQLite's file is checked; no server is contacted."""
    parsed = parse_url(url, "--db")
    if parsed.get_backend_name() != "sqlite" or parsed.query.get("uri"):
        return True
    return bool(parsed.database) and Path(str(parsed.database)).is_file()


def refuse_missing(url: str, where: str = "--db", hint: str = "") -> None:
    """Raises InputError if there is no database at `url`, for commands that write and are not there to make one."""
    if not exists(url):
        got = f"no file {parse_url(url, where).database}"
        raise InputError(where, "a results database", got, hint or how_to_publish())


def how_to_publish(name: str = "") -> str:
    """What to try where nothing is published, or nothing named so: a release's night is made, else the newest run of
    this folder, or how to make one."""
    if release_in(name):
        return f"opscope history --backend {shlex.quote(name)} --model mnist_mlp"
    run = newest_run()
    return f"opscope publish {shlex.quote(str(run))}" if run is not None else "pytest --model mnist_mlp --op-by-op"


@contextmanager
def read_database(url: str, where: str = "--db", hint: str = "") -> Iterator[sa.Connection]:
    """Opens one read-only transaction on the database at `url`.

    Raises InputError for a bad URL, a missing database, a server that does not answer, a schema that differs from this
    opscope's, and any error of a query in the transaction.
    """
    parsed = parse_url(url, where)
    refuse_missing(url, where, hint)
    try:
        engine = _engine(parsed)
    except ImportError as error:
        extra = install_command("postgres")
        raise InputError(where, "an installed database driver", f"no module `{error.name}`", extra) from error
    hint = ""
    try:
        with engine.connect() as connection:
            renew = f"{RENEW} --db {shown(parsed)}"
            _check_schema(connection, where, renew)
            hint = "" if has_todays_views(connection) else f"{renew} (its views are another opscope's)"
            yield connection
    except SQLAlchemyError as error:
        got, hint = driver_reason(error, parsed), hint or _hint(error, parsed)
        raise InputError(where, f"to read {shown(parsed)}", got, hint) from error
    except Exception as error:
        raise_if_damaged(error, where, parsed)
        raise
    finally:
        engine.dispose()


def _hint(error: SQLAlchemyError, url: sa.URL) -> str:
    """What to try after an error of a driver."""
    if url.get_backend_name() != "sqlite":
        return "whether the server runs" if isinstance(error, OperationalError) else ""
    driver_error = getattr(error, "orig", None)
    if getattr(driver_error, "sqlite_errorcode", None) == LEFT_BEHIND:
        path = str(url.database).removeprefix("file:")
        return f"{RENEW} --db {file_url(Path(path))} as a user who may write there: a writer of it was killed"
    return HINTS.get(error_code(driver_error), "")


def has_todays_views(connection: sa.Connection) -> bool:
    """Whether the views in the database are those of this opscope, which reads and writes one schema with others."""
    return has_views(connection, digest_of(views()))


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        if url.database and url.database != ":memory:" and not url.query.get("uri"):
            path = Path(url.database).absolute()
            recover(path)
            url = url.set(database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})
        options = {"compiled_cache": SQLITE_STATEMENTS}
        engine = sa.create_engine(url, connect_args={"timeout": 30}, execution_options=options)

        # Even a read-only connection creates the file of a database that a query attaches.
        @event.listens_for(engine, "connect")
        def connected(connection: Any, _: object) -> None:
            connection.set_authorizer(
                lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
            )

        return engine
    # A prepared statement is one statement: a query cannot end the read-only transaction and go on after it.
    engine = sa.create_engine(url, connect_args={"prepare_threshold": 0}, poolclass=sa.NullPool)
    return bounded(engine, READING).execution_options(postgresql_readonly=True)


def _check_schema(connection: sa.Connection, where: str, renew: str) -> None:
    version = schema_version(connection)
    refuse_foreign_schema(connection, version, where)
    if version != head():
        raise InputError(where, f"a database of schema {head()}", f"schema {version}" if version else "none", renew)
