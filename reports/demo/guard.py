"""Keeps demo data out of databases with real runs, because a trend over both would be wrong."""

from __future__ import annotations

import sqlalchemy as sa

from opscope.base.visible_text import counted
from opscope.harness.record.errors import InputError
from opscope.reports.database.database import open_database, parse_url, shown
from opscope.reports.database.schema import NIGHTS


def refuse_real_runs(url: str) -> None:
    """Raises InputError if the database at `url` has runs that are not demo data; creates the database if needed."""
    with open_database(url, "--to") as connection:
        count = connection.scalar(sa.select(sa.func.count()).select_from(NIGHTS).where(~NIGHTS.c.demo))
    if count:
        got = f"{counted(count, 'night')} of yours in {shown(parse_url(url))}"
        raise InputError("--to", "a database without real runs", got, "a database of its own")
