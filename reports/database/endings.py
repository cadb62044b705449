"""What views and stored questions say of a row of op tests in words: how the op ended, and in which format it ran."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opscope.base.statuses import PASSED

if TYPE_CHECKING:
    import sqlalchemy as sa

DEFAULT = "default"
"""The number format of what was asked for without one: that of the module's own types, or the backend's own."""
UNKNOWN = "unknown"
"""The number format of what never ran."""

_PLACE = re.compile(r"\{(ending|format) (\w+)\}")


def ending_of(table: str) -> str:
    """The ending of a row of `table`, a table of op tests or its alias: `opscope.base.statuses.ending` in SQL."""
    stopped = f"{table}.status = 'stopped' AND ({table}.stage_reached <> 'run' OR {table}.ran_on <> 'none')"
    return f"CASE WHEN {stopped} THEN '{PASSED}' ELSE {table}.status END"


def format_of(table: str) -> str:
    """The number format of a row of `table`, by name where it is the default or nobody knows it."""
    never = f"{table}.status = 'not_run' OR {table}.status = 'skipped'"
    named = f"WHEN {table}.data_format <> '' THEN {table}.data_format"
    return f"CASE {named} WHEN {never} THEN '{UNKNOWN}' ELSE '{DEFAULT}' END"


_FILLED = {"ending": ending_of, "format": format_of}


def with_endings(text: str) -> str:
    """The SQL of a view or a stored question, with each `{ending TABLE}` and `{format TABLE}` in its text filled in."""
    return _PLACE.sub(lambda place: _FILLED[place[1]](place[2]), text)


def ending_column(table: sa.Table) -> sa.ColumnElement[str]:
    """The ending as a column called `status`."""
    import sqlalchemy as sa

    return sa.literal_column(ending_of(table.name), sa.Text()).label("status")
