"""The limits of every query of the results, whoever asks: its time, and the size of one value.

Superset's own time limit is a signal, which no thread of a server receives.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import threading
import time
import weakref
from typing import Any

SECONDS = 30.0
"""After which a query is stopped, before gunicorn and Superset's pages give up (60)."""
LARGEST = 32 << 20
"""Bytes of one value in SQLite, where a function cannot be stopped: `hex(randomblob(n))` of these takes 0.3 s."""
LIMITS = {"SQLITE_LIMIT_LENGTH": LARGEST, "SQLITE_LIMIT_LIKE_PATTERN_LENGTH": 1000, "SQLITE_LIMIT_ATTACHED": 0}
LOOK_EVERY = 0.2


class _Watch:
    """A thread that interrupts SQLite connections whose query takes too long; it starts with the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._connections: weakref.WeakSet[LimitedConnection] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, connection: LimitedConnection) -> None:
        """Watches a connection until it is closed."""
        with self.lock:
            self._connections.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="query limits", daemon=True)
                self._thread.start()

    def _look(self) -> None:
        while True:
            time.sleep(LOOK_EVERY)
            with self.lock:
                now = time.monotonic()
                for connection in self._connections:
                    if connection.ends < now:
                        connection.ends = math.inf
                        connection.stop()


_WATCH = _Watch()


class LimitedCursor(sqlite3.Cursor):
    """A cursor whose queries end in time."""

    def execute(self, *words: Any) -> sqlite3.Cursor:
        """Runs one statement, whose time begins now. Raises OperationalError if it takes too long."""
        assert isinstance(self.connection, LimitedConnection)
        with _WATCH.lock:  # a statement that starts after an interrupt is not stopped by it
            self.connection.ends = time.monotonic() + SECONDS
        return self._explained(super().execute, *words)

    def fetchall(self) -> list[Any]:
        """The rows that are left; SQLite computes them here."""
        return self._explained(super().fetchall)

    def fetchmany(self, *words: Any) -> list[Any]:
        """The next rows."""
        return self._explained(super().fetchmany, *words)

    @staticmethod
    def _explained(what: Any, *words: Any) -> Any:
        try:
            return what(*words)
        except sqlite3.OperationalError as error:
            if str(error) != "interrupted":
                raise
            message = f"the query took longer than {SECONDS:g} s, so it was stopped"
            raise sqlite3.OperationalError(message) from None


class LimitedConnection(sqlite3.Connection):
    """A connection whose queries end in time and whose values have a largest size."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.ends = math.inf
        if hasattr(self, "setlimit"):  # Python 3.11 and newer
            for name, limit in LIMITS.items():
                self.setlimit(getattr(sqlite3, name), limit)
        _WATCH.add(self)

    def cursor(self, *_: Any) -> Any:
        """A cursor with limits."""
        return super().cursor(LimitedCursor)

    def create_function(self, name: str, *words: Any, **options: Any) -> None:
        """Adds a function, but not SQLAlchemy's `regexp`: an expression of Python's holds all threads up for as long
        as it likes."""
        if name != "regexp":
            super().create_function(name, *words, **options)

    def stop(self) -> None:
        """Interrupts what runs, if anything does."""
        with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed
            self.interrupt()


def limited(uri: Any, options: dict[str, Any], *_: object) -> tuple[Any, dict[str, Any]]:
    """Superset's hook for the URL and the options of an engine: adds the limits of SQLite or PostgreSQL."""
    arguments = options.setdefault("connect_args", {})
    if uri.get_backend_name() == "sqlite":
        arguments["factory"] = LimitedConnection
    elif uri.get_backend_name() == "postgresql":
        given = uri.query.get("options", ())
        words = [given] if isinstance(given, str) else list(given)
        arguments["options"] = " ".join([*words, f"-c statement_timeout={1000 * SECONDS:.0f}"])
    return uri, options
