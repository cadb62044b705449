"""What alerts and reports take from the newest night: its time zone, and by when there had to be one (due.py)."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import due

SINCE = "{since}"
"""Stands in the SQL of an alert for the time since when there should have been a night, in UTC."""


def take(database: Any, docs: list[dict[str, Any]], now: datetime) -> None:
    """Writes zone and time to the stored alerts of the bundle, where they have changed. `docs`: as up.py writes them.

    `database`: the results as Superset has them. Without a night of one's own the zone is UTC and nothing is late.
    """
    from superset import db
    from superset.reports.models import ReportSchedule

    with database.get_raw_connection() as connection:
        cursor = connection.cursor()
        cursor.execute(due.NEWEST)
        asked = due.read(lambda *_: cursor.fetchall(), now)
    zone, since = (asked.zone, asked.since) if asked else ("UTC", now - due.OLD)
    rows = {row.name: row for row in db.session.query(ReportSchedule).all()}
    for doc in docs:
        row = rows.get(doc["name"])
        if row is None:
            continue
        if row.timezone != zone:
            row.timezone = zone
        if SINCE in (doc["sql"] or ""):
            text = doc["sql"].replace(SINCE, f"{since.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S}")  # noqa: UP017 - Python 3.10
            if row.sql != text:
                row.sql = text
    db.session.commit()
