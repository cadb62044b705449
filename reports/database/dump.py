"""A whole database as SQL: what a team takes with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from opscope.base import atomic_write
from opscope.harness.record.errors import InputError
from opscope.reports.database.database import parse_url, shown


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
            text = "\n".join(connection.iterdump()) + "\n"
        atomic_write.write_whole(file, text)
        return len(text.encode())
    password = {"PGPASSWORD": url.password} if url.password else {}
    plain = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    try:
        done = subprocess.run(
            ["pg_dump", "--no-owner", "--no-privileges", plain],
            capture_output=True,
            env=os.environ | password,
            check=False,
        )
    except FileNotFoundError:
        raise InputError(
            "opscope db dump", "pg_dump", "none on this machine", "apt-get install postgresql-client"
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(shown(url), "a database that pg_dump reads", said[-1], "its --db URL")
    atomic_write.write_whole(file, done.stdout)
    return len(done.stdout)
