"""Which nights and runs may be the newest: those that have begun, by the reader's clock.

One that is dated later than now and a day was made where a clock was wrong. It stays in the database and can be named,
but no door takes it for the newest; views ask `nights_ahead` for the same.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from opscope.reports.database.schema import NIGHTS
from opscope.reports.records.night_record import TIME

SLACK = timedelta(days=1)
"""How far two clocks, or a zone that was left out, may differ."""
TOMORROW = {
    "sqlite": "STRFTIME('%Y-%m-%d %H:%M:%f', 'now', '+1 day')",
    "postgresql": "CURRENT_TIMESTAMP + INTERVAL '1 day'",
}
"""Now and the slack in SQL, as each database has times."""


LATEST = sa.bindparam("latest", callable_=lambda: latest(), type_=NIGHTS.c.started.type)
"""`latest` at the time at which a statement runs."""


def latest() -> datetime:
    """Until when a night or run can have started."""
    return datetime.now(UTC) + SLACK


def ahead() -> sa.Select[str]:
    """The ids of the nights, and of the runs that belong to none, that are dated later than now."""
    return sa.select(NIGHTS.c.night_id).where(NIGHTS.c.axis == TIME, NIGHTS.c.started > LATEST)


def begun(night_id: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether a night may be the newest; `night_id`: a column of a table or a view."""
    return night_id.not_in(ahead())


def ahead_line(connection: sa.Connection) -> str:
    """Names what is dated later than now; empty if there is nothing."""
    rows = connection.execute(ahead().add_columns(NIGHTS.c.started).order_by(NIGHTS.c.started)).all()
    if not rows:
        return ""
    more = f", and {len(rows) - 1} more" if rows[1:] else ""
    return f"not the newest: {rows[0].night_id} of {rows[0].started:%Y-%m-%d %H:%M} UTC{more}, dated later than now"


def newest_day(connection: sa.Connection) -> str:
    """The date of the newest night, each in its own zone, which stands for all nights of that date: tonight of
    views/night_dates.sql. Empty where there is none."""
    return connection.scalar(_NEWEST_DAY) or ""


_NEWEST_DAY = (
    sa.select(sa.func.max(sa.func.substr(NIGHTS.c.label, 1, 10)))
    .where(NIGHTS.c.kind == "night")
    .where(begun(NIGHTS.c.night_id))
)
