"""Connections to PostgreSQL that end by themselves if the server says nothing any more.

TCP's keepalives notice a machine or a network that is gone. They do not notice a server that is stopped: its kernel
answers for it, and libpq waits for ever. So each wait of the driver has an end here.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa

READING, WRITING = 60.0, 900.0
"""Seconds for which a server may say nothing to who reads, and to who writes: another may hold the lock so long."""
CONNECTING = 10
"""Seconds in which a server has to let somebody in."""
CANCELLING = 2.0
"""Seconds in which it has to take back what it was asked."""
ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""Options of libpq, in seconds; the last in ms."""


def connect(silent: float, *words: Any, **options: Any) -> Any:
    """A `psycopg.Connection` as `psycopg.connect` makes it; its attribute `silent`, in seconds, may be changed.

    Raises ImportError without the driver, psycopg.OperationalError if there is no server, and later if it says nothing.
    """
    own: dict[str, Any] = {"connect_timeout": CONNECTING, **ALIVE}
    given = " ".join(map(str, words))
    connection = _class().connect(*words, **{name: own[name] for name in own if name not in given} | options)
    connection.silent = silent
    return connection


def bounded(engine: sa.Engine, silent: float) -> sa.Engine:
    """The engine, whose connections are made so if it is one of PostgreSQL."""
    from sqlalchemy import event

    if engine.driver == "psycopg":

        @event.listens_for(engine, "do_connect")
        def connected(_: object, record: object, words: Sequence[Any], named: Mapping[str, Any]) -> Any:
            return connect(silent, *words, **named)

    return engine


@functools.cache
def _class() -> Any:
    import psycopg  # pyright: ignore[reportMissingImports] - an extra

    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # whoever connects says what went wrong, in one line

    class Impatient(psycopg.Connection[Any]):
        silent = READING

        def wait(self, gen: Generator[Any, Any, Any], *words: Any, **named: Any) -> Any:
            return super().wait(self._bounded(gen), *words, **named)

        def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """The driver's generator, which asks what to wait for, and is sent every 0.1 s whether it has come."""
            end = time.monotonic() + self.silent
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if ready:
                        end = time.monotonic() + self.silent
                    elif time.monotonic() > end:
                        self._give_up()
                    wanted = gen.send(ready)
            except StopIteration as result:
                return result.value

        def _give_up(self) -> None:
            with contextlib.suppress(Exception):
                if psycopg.capabilities.has_cancel_safe():  # another kind of cancelling waits for a stopped server too
                    self.cancel_safe(timeout=CANCELLING)
            self.pgconn.finish()  # nobody can wait for this connection any more: what is left to roll back is not asked
            raise psycopg.OperationalError(f"no answer within {self.silent:g} s")

    return Impatient
