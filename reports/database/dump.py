"""A whole database as SQL: what a team takes with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from opscope.base import atomic_write
from opscope.harness.record.errors import InputError
from opscope.reports.database.database import parse_url, shown

PIECE = 1 << 20
"""Bytes that are held at once."""


def dump(database: str, file: Path) -> int:
    """Writes the tables, views and rows of a database to a file; returns its size in bytes.

    Raises InputError where there is no such database, or no pg_dump for one of PostgreSQL, OSError for a file that
    cannot be written.
    """
    url = parse_url(database)
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        if not path.is_file():
            raise InputError("--db", "a database that is there", shown(url), "opscope db dump FILE --db URL")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            atomic_write.write_whole(file, (f"{line}\n" for line in connection.iterdump()))
    else:
        atomic_write.write_whole(file, _of_postgres(url))
    return file.stat().st_size


def _of_postgres(url: sa.URL) -> Iterator[bytes]:
    """What pg_dump writes. Raises InputError if it fails, also at its end."""
    password = {"PGPASSWORD": url.password} if url.password else {}
    plain = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    words = ["pg_dump", "--no-owner", "--no-privileges", plain]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, env=os.environ | password)
        except FileNotFoundError:
            hint = "apt-get install postgresql-client"
            raise InputError("opscope db dump", "pg_dump", "none on this machine", hint) from None
        with process:
            output = process.stdout
            assert output is not None
            yield from iter(lambda: output.read(PIECE), b"")
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), f"exit code {process.returncode}")
            raise InputError(shown(url), "a database that pg_dump reads", last, "its --db URL")
