"""Empty PostgreSQL databases to measure in, on the server that OPSCOPE_MEASURE_POSTGRES names by the URL of any of its
databases; each is dropped when its figures are taken."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

SERVER = "OPSCOPE_MEASURE_POSTGRES"


@contextmanager
def database() -> Iterator[str]:
    """The URL of a new, empty database; an empty text where no server is named."""
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
