"""Creates empty PostgreSQL databases for measurements and drops each one after its figures are measured.

OPSCOPE_MEASURE_POSTGRES is the URL of any database on the server.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

SERVER = "OPSCOPE_MEASURE_POSTGRES"


@contextmanager
def database() -> Iterator[str]:
    """Yields the URL of a new, empty database; an empty text if no server is named."""
    if not os.environ.get(SERVER):
        yield ""
        return
    server_url = sa.make_url(os.environ[SERVER])
    name = f"opscope_measure_{uuid.uuid4().hex[:12]}"
    server = sa.create_engine(server_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    try:
        yield server_url.set(database=name).render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
        server.dispose()
