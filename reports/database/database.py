"""Opens the results database at a URL and brings it up to date; driver errors become one line without a password.

SQLite and PostgreSQL. A new database gets the tables of schema.py, an older one what reports/database/migrations
change; views (reports/database/views/*.sql) hold no rows and are created again whenever one of their files has changed.
"""

from __future__ import annotations

import errno
import functools
import re
import sqlite3
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from opscope.base import regular_file
from opscope.base.digest import words_digest
from opscope.base.file_names import as_text
from opscope.base.installing import install_command
from opscope.base.results_folder import make_folder
from opscope.base.server_connection import WRITING, bounded
from opscope.base.time_limit import expired
from opscope.base.visible_text import cut
from opscope.harness.record.errors import InputError
from opscope.harness.record.masking import SECRET_KEY, mask_secrets
from opscope.harness.record.measures import MEASURES
from opscope.reports.database.compiled_statements import SQLITE_STATEMENTS
from opscope.reports.database.endings import with_endings
from opscope.reports.database.files import ROOM, head, numbers
from opscope.reports.database.newest import TOMORROW
from opscope.reports.database.sqlite_file import BACKUP, HINTS, error_code

if TYPE_CHECKING:
    from alembic.config import Config

SETTINGS = sa.Table(
    "opscope_settings",
    sa.MetaData(),
    sa.Column("name", sa.Text(), primary_key=True),
    sa.Column("value", sa.Text(), nullable=False),
)
"""Which views the database has: `views` (their names) and `views_digest` (of their texts); and by which rules its
nights were counted: `counted_by` (reports/publish/counting.py)."""

VERSION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The number of the newest migration, in Alembic's own table."""

REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|(role|user|database) \".*\" does not exist"
    r"|is not permitted to log in|permission denied for database",
    re.IGNORECASE,
)
"""Messages with which PostgreSQL refuses a login. libpq gives no SQLSTATE for a failed connection, so the text decides;
a server with messages in another language counts as unreachable."""

_SOURCE = re.compile(r"\b(?:FROM|JOIN) (\w+)")
"""What a SELECT reads from."""

ADVISORY_LOCK = 0x6F7073636F7065
"""Key of PostgreSQL's lock around a migration (the bytes of `opscope`)."""


class DatabaseAwayError(InputError):
    """The database cannot be reached or written right now; publishing can be tried again later."""

    exit_code = 1
    """Of a command whose records wait now."""


class DatabaseRefusedError(DatabaseAwayError):
    """The server refuses this URL, and trying again will not help: its user, password or database is wrong."""

    exit_code = 2


def parse_url(url: str, where: str = "--to") -> sa.URL:
    """Parses `url`. Raises InputError for anything that is not a SQLite or PostgreSQL URL."""
    example = "sqlite:///results.sqlite or postgresql://user@host/name"
    if as_text(url) != url:
        raise InputError(where, "a database URL", "a text that is no Unicode in this locale", example)
    try:
        parsed = sa.make_url(url)
        kind = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        # The error does not contain the URL: a URL that cannot be parsed cannot be masked either.
        raise InputError(where, "a database URL", "a text that is no URL", example) from error
    if kind not in ("sqlite", "postgresql"):
        raise InputError(where, "a SQLite or PostgreSQL URL", f"`{kind}`", example)
    return parsed


def usable_url(url: str, where: str = "--to") -> sa.URL:
    """Parses `url` and checks that its driver is installed. Raises InputError if not, and if a SQLite database would be
    a pipe, a device or a link to itself; no server is contacted."""
    parsed = parse_url(url, where)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise InputError(
                where, "a file for the database", "one in memory, which nobody reads", "sqlite:///results.sqlite"
            )
        _refuse_special_file(parsed.database, where)
    try:
        parsed.get_dialect().import_dbapi()
    except ImportError as error:
        extra = install_command("postgres")
        raise InputError(where, "an installed database driver", f"no module `{error.name}`", extra) from error
    return parsed


def _refuse_special_file(path: str, where: str) -> None:
    """Raises InputError for what can never become a database. A folder in its place, or in place of its folder, may go
    again: then the database is away, and what is published waits."""
    try:
        regular_file.check(Path(path))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ELOOP):
            reason = error.strerror or str(error)
            raise InputError(where, "a file for the database", f"{path} ({reason})", "another path") from error


def shown(url: sa.URL) -> str:
    """Formats `url` for printing, with `***` for passwords in it and in its query."""
    return mask_secrets(url.render_as_string(hide_password=True))


@contextmanager
def open_database(url: str, where: str = "--to") -> Iterator[sa.Connection]:
    """Opens one transaction on the up-to-date database at `url`; it commits at the end and rolls back on any error.

    Raises InputError for a bad URL, a missing driver and a database that a newer opscope made. Raises its subclass
    DatabaseAwayError if the server does not answer or the connection is lost, and if the file cannot be written. Raises
    DatabaseRefusedError, a subclass of DatabaseAwayError, if the server refuses the login.
    """
    parsed = usable_url(url, where)
    try:
        engine = _engine(parsed)
    except OSError as error:
        raise InputError(where, "a writable folder", driver_reason(error, parsed), f"another {where}") from error
    try:
        with engine.begin() as connection:
            _bring_up_to_date(connection, where)
            yield connection
    except (SQLAlchemyError, OSError) as error:
        kind, hint = _kind_of(error, parsed)
        raise kind(where, f"to write {shown(parsed)}", driver_reason(error, parsed), hint) from error
    except Exception as error:
        raise_if_damaged(error, where, parsed)
        raise
    finally:
        engine.dispose()


def _kind_of(error: Exception, url: sa.URL) -> tuple[type[InputError], str]:
    """Returns the error to raise for a driver's error, and a hint what to try."""
    away = isinstance(error, OSError | OperationalError) or getattr(error, "connection_invalidated", False)
    if url.get_backend_name() == "sqlite":
        code = error_code(getattr(error, "orig", None))
        if away and code not in (sqlite3.SQLITE_ERROR, *HINTS):
            return DatabaseAwayError, "a path that can be written"
        return InputError, HINTS.get(code, BACKUP)
    if not away:
        return InputError, "a role that may write"
    if isinstance(error, OperationalError) and REFUSED.search(str(error.orig)):
        return DatabaseRefusedError, "the user, password and database that the server knows"
    return DatabaseAwayError, "whether the server runs"


def _engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        return bounded(sa.create_engine(url, poolclass=sa.NullPool), WRITING)
    if url.database and url.database != ":memory:" and not url.query.get("uri"):
        make_folder(Path(url.database).parent)
    options = {"compiled_cache": SQLITE_STATEMENTS}
    engine = sa.create_engine(url, connect_args={"timeout": 30}, execution_options=options)

    # Python's driver starts transactions late and never around DDL. So the whole publish is one transaction that starts
    # here, and two first runs at once wait for each other instead of both creating the tables.
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        connection.set_progress_handler(expired, 1_000_000)  # a few times a second: one statement may take hours

    @event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


LIBRARIES = ("sqlalchemy", "alembic", "pydantic")


class DamagedValueError(ValueError):
    """A value in the database is not what its column says: SQLite takes any value in any column."""


def raise_if_damaged(error: Exception, where: str, url: sa.URL) -> None:
    """Raises InputError if `error` comes from a value in the database that is not what its column says.

    These libraries raise errors of many kinds for a time that is none, JSON that is none or a schema of nobody. What
    they raise below the last call of ours is the database's fault; everything else is one of ours.
    """
    frames = [str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = max((place for place, name in enumerate(frames) if name.startswith("opscope.")), default=-1)
    library = any(name.partition(".")[0] in LIBRARIES for name in frames[ours + 1 :])
    if isinstance(error, DamagedValueError) or (library and not isinstance(error, InputError)):
        got = f"a damaged database ({type(error).__name__}: {cut(driver_reason(error, url), 200)})"
        raise InputError(where, f"to read {shown(url)}", got, BACKUP) from error


def driver_reason(error: BaseException, url: sa.URL) -> str:
    """The driver's message in one line, without the password."""
    text = str(error.orig) if isinstance(error, DBAPIError) and error.orig else str(error)
    line = " ".join(text.split()) or type(error).__name__
    secrets = [url.password, *(value for key, value in url.query.items() if SECRET_KEY.search(key))]
    for secret in secrets:
        if secret:
            line = line.replace(str(secret), "***")
    return line


# --- schema


def refuse_foreign_schema(connection: sa.Connection, version: str | None, where: str) -> None:
    """Raises InputError for a database of a newer opscope, for one from before the first migration, and for one of
    another program: a file of SQLite with tables but no version of ours."""
    first = numbers()[0]
    tables = connection.dialect.name == "sqlite" and version is None and sa.inspect(connection).get_table_names()
    if tables or (version is not None and not version[:4].isdigit()):
        got = f"one of another program (its tables: {cut(', '.join(tables), 60)})" if tables else f"schema {version}"
        raise InputError(where, f"a database of schema {head()} or older, or a new file", got, "another file")
    if version is not None and version > head():
        raise InputError(where, f"a database of schema {head()} or older", f"schema {version}", "a newer opscope")
    if version is not None and version < first:
        hint = "publishing the run folders to a new database: opscope publish RUN_DIR... --to URL"
        raise InputError(where, f"a database of schema {first} or newer", f"schema {version}", hint)


@functools.cache
def views() -> Mapping[str, str]:
    """Name of each view -> its SELECT, ordered so that each view comes after the views that it reads."""
    measures = ", ".join(f"t.{name}" for name in MEASURES)
    selects = {
        path.stem: with_endings(path.read_text(encoding="utf-8").replace("{measures}", measures))
        for path in sorted((ROOM / "views").glob("*.sql"))
    }
    sources = {name: set(_SOURCE.findall(select)) for name, select in selects.items()}
    ordered: dict[str, str] = {}

    def add(name: str) -> None:
        for other in selects:
            if other != name and other not in ordered and other in sources[name]:
                add(other)
        ordered[name] = selects[name]

    for name in selects:
        if name not in ordered:
            add(name)
    return MappingProxyType(ordered)


def digest_of(selects: Mapping[str, str]) -> str:
    """The digest of the texts of the views."""
    return words_digest(*(f"{name}\0{text}" for name, text in selects.items()))


def has_views(connection: sa.Connection, digest: str) -> bool:
    """Whether the views in the database are those with that digest."""
    return digest == connection.scalar(sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "views_digest"))


def _bring_up_to_date(connection: sa.Connection, where: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
    version = schema_version(connection)
    refuse_foreign_schema(connection, version, where)
    if version is None:
        _make_tables(connection)
    elif version != head():
        _drop_views(connection)
        _migrate(connection)
        analyze_nights(connection)
    _renew_views(connection, version != head())


def analyze_nights(connection: sa.Connection) -> None:
    """Has PostgreSQL look at the tables of nights. It does so by itself after 50 changed rows, which may be a month;
    until then it takes them for other than they are, and joins nights row by row: 5 s where 0.3 do."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ANALYZE nights, night_series")


def schema_version(connection: sa.Connection) -> str | None:
    """Returns the number of the newest migration that was applied to the database; None if there was none."""
    if not sa.inspect(connection).has_table(VERSION.name):
        return None
    version = connection.scalar(sa.select(VERSION.c.version_num))
    return None if version is None else str(version)


def _drop_views(connection: sa.Connection) -> None:
    """Drops the views, including those of older versions, because a migration may change their tables."""
    if not sa.inspect(connection).has_table(SETTINGS.name):
        return
    names = connection.scalar(sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "views")) or ""
    for name in reversed(names.split()):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def _make_tables(connection: sa.Connection) -> None:
    """Makes the tables of a new database, which are those that migrations make of an older one."""
    for statement in _statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
    connection.execute(sa.insert(VERSION), {"version_num": head()})


@functools.cache
def _statements(kind: str) -> tuple[str, ...]:
    """What makes the tables and their indexes in a database of that kind."""
    from opscope.reports.database import schema_nights, whole_models  # noqa: F401 - their tables join those of METADATA
    from opscope.reports.database.schema import METADATA

    tables, dialect = (VERSION, *METADATA.sorted_tables), sa.make_url(f"{kind}://").get_dialect()()
    indexes = (index for table in tables for index in sorted(table.indexes, key=lambda each: str(each.name)))
    elements = (*map(CreateTable, tables), *map(CreateIndex, indexes))
    return tuple(str(element.compile(dialect=dialect)) for element in elements)


def _migrate(connection: sa.Connection) -> None:
    # Importing Alembic takes half a second, so only an upgrade imports it.
    from alembic import command

    command.upgrade(alembic_config(connection), "head")


def alembic_config(connection: sa.Connection) -> Config:
    """Alembic's configuration: the folder of the migrations, and the connection."""
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(ROOM / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _renew_views(connection: sa.Connection, force: bool) -> None:
    """Creates all views again if their files have changed since the database got its views."""
    selects = views()
    digest = digest_of(selects)
    SETTINGS.create(connection, checkfirst=True)
    if not force and has_views(connection, digest):
        return
    _drop_views(connection)
    for name, select in selects.items():
        text = select.replace("{tomorrow}", TOMORROW[connection.dialect.name])
        connection.exec_driver_sql(f"CREATE VIEW {name} AS\n{text}")
    connection.execute(sa.delete(SETTINGS).where(SETTINGS.c.name.in_(["views", "views_digest"])))
    rows = [{"name": "views_digest", "value": digest}, {"name": "views", "value": " ".join(selects)}]
    connection.execute(sa.insert(SETTINGS), rows)
