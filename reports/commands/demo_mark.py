"""Says under what a command printed that its database holds demo data, since one result looks like another."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import click

from opscope.reports.database import sqlite_file
from opscope.reports.database.files import default_url
from opscope.reports.records.demo_data import SAID

ANY = "SELECT 1 FROM nights WHERE demo LIMIT 1"
"""A database has either demo data or real runs (reports/demo/guard.py)."""


def say_if_demo(url: str | None) -> None:
    """Writes SAID to stderr if the database at `url`, or that of this folder, holds demo data."""
    if _is_demo(url or default_url()):
        click.echo(SAID, err=True)


def _is_demo(url: str) -> bool:
    if path := sqlite_file.path_of(url):
        try:
            with closing(sqlite3.connect(sqlite_file.uri(path), uri=True)) as connection:
                return connection.execute(ANY).fetchone() is not None
        except sqlite3.Error:  # the command itself has said why
            return False
    if url.startswith(sqlite_file.BEGINNING):
        return False
    from opscope.harness.record.errors import InputError
    from opscope.reports.database.reading import read_database

    try:
        with read_database(url) as connection:
            return connection.exec_driver_sql(ANY).first() is not None
    except InputError:
        return False
