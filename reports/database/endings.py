"""How an op ended, in SQL: `opscope.base.statuses.ending` over the columns of a table of op tests."""

from __future__ import annotations

import re

import sqlalchemy as sa

from opscope.base.statuses import PASSED

_PLACE = re.compile(r"\{ending (\w+)\}")


def ending_of(table: str) -> str:
    """The ending of a row of `table`, a table of op tests or its alias."""
    stopped = f"{table}.status = 'stopped' AND ({table}.stage_reached <> 'run' OR {table}.ran_on <> 'none')"
    return f"CASE WHEN {stopped} THEN '{PASSED}' ELSE {table}.status END"


def with_endings(text: str) -> str:
    """The SQL of a view or a stored question, with each `{ending TABLE}` in its text filled in."""
    return _PLACE.sub(lambda place: ending_of(place[1]), text)


def ending_column(table: sa.Table) -> sa.ColumnElement[str]:
    """The ending as a column called `status`."""
    return sa.literal_column(ending_of(table.name), sa.Text()).label("status")
