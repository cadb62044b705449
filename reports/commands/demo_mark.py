"""Says under what a command printed that its database holds demo data, since one result looks like another."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import click

from opscope.reports.database import postgres_session, sqlite_file
from opscope.reports.database.files import default_url
from opscope.reports.records.demo_data import SAID

ANY = "SELECT 1 FROM nights WHERE demo LIMIT 1"
"""A database has either demo data or real runs (reports/demo/cli.py)."""


def say_if_demo(url: str | None) -> None:
    """Writes SAID to stderr if the database at `url`, or that of this folder, holds demo data."""
    if is_demo(url):
        click.echo(SAID, err=True)


def is_demo(url: str | None) -> bool:
    """Whether it does; False also for a database that cannot be read: the command itself has said why."""
    url = url or default_url()
    if path := sqlite_file.path_of(url):
        try:
            with closing(sqlite3.connect(sqlite_file.uri(path), uri=True)) as connection:
                return connection.execute(ANY).fetchone() is not None
        except sqlite3.Error:
            return False
    if not postgres_session.is_plain(url):
        return False
    try:
        import psycopg  # pyright: ignore[reportMissingImports] - an extra
    except ImportError:
        return False
    try:
        with postgres_session.reading(url, postgres_session.ANSWERS_WITHIN) as connection:
            return connection.execute(ANY).fetchone() is not None
    except psycopg.Error:
        return False
