"""A short text that changes with the results database: what cached answers of charts rest on."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

ASK_EVERY = 2.0
"""Seconds for which an answer of PostgreSQL is taken as the newest."""
WRITTEN = "SELECT COALESCE(SUM(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables"
"""Rows ever written to tables of this database. Every role may read it, and it costs nothing to ask."""
FILES = ("", "-wal", "-journal")
"""SQLite keeps what was written last beside its file."""


def of_database(uri: str) -> Callable[[], str]:
    """Returns what tells the version of the database at `uri`, a URL of SQLAlchemy."""
    if uri.startswith("sqlite"):
        path = unquote(urlsplit(uri.removeprefix("sqlite:///")).path)
        return lambda: _digest(*(_state(path + suffix) for suffix in FILES))
    return _Postgres(uri)


class _Postgres:
    """Asks the server, at most every ASK_EVERY seconds. A server that is away has a version that never comes again."""

    def __init__(self, uri: str) -> None:
        import sqlalchemy as sa
        from sqlalchemy.exc import SQLAlchemyError

        self._engine = sa.create_engine(uri, pool_size=1, pool_pre_ping=True)
        self._statement = sa.text(WRITTEN)
        self._errors = SQLAlchemyError
        self._lock = threading.Lock()
        self._asked, self._version = -ASK_EVERY, ""

    def __call__(self) -> str:
        with self._lock:
            if time.monotonic() - self._asked > ASK_EVERY:
                try:
                    with self._engine.connect() as connection:
                        self._version = _digest(connection.execute(self._statement).scalar())
                except self._errors:
                    return uuid.uuid4().hex
                self._asked = time.monotonic()
            return self._version


def _state(path: str) -> object:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _digest(*what: object) -> str:
    return hashlib.blake2b(repr(what).encode(), digest_size=8).hexdigest()
