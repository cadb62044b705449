"""Checks whether nights still arrive: finds the newest night and the newest complete night."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from opscope.base.night_grid.due import due
from opscope.reports.database.newest import begun
from opscope.reports.database.schema import NIGHTS
from opscope.reports.database.schema_nights import NIGHT_SERIES
from opscope.reports.database.series_names import names_of


@dataclass(frozen=True)
class Night:
    """One night of the database, and whether it is complete."""

    night_id: str
    label: str
    started: datetime
    complete: bool
    missing: str
    """What is missing, by series; empty if the night is complete."""

    def age(self, now: datetime) -> timedelta:
        """Time since the night started."""
        return now - self.started

    def age_text(self, now: datetime) -> str:
        """The same as text: `3 h`, `2.5 d`."""
        hours = self.age(now).total_seconds() / 3600
        return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.1f} d"


def newest_nights(connection: sa.Connection, name: str | None = None) -> tuple[Night | None, Night | None]:
    """Returns the newest night and the newest complete night, or None for each; demo nights do not count.

    A night is complete if all models and shards arrived in each of its series and every run ended.
    """
    query = sa.select(NIGHTS.c.night_id, NIGHTS.c.label, NIGHTS.c.started)
    query = query.where(_own(name))
    newest = None
    for night_id, label, started in connection.execute(
        query.order_by(NIGHTS.c.started.desc(), NIGHTS.c.night_id.desc())
    ):
        series = connection.execute(
            sa.select(NIGHT_SERIES.c.series, NIGHT_SERIES.c.status, NIGHT_SERIES.c.missing)
            .where(NIGHT_SERIES.c.night_id == night_id)
            .order_by(NIGHT_SERIES.c.series)
        ).all()
        partial = [row for row in series if row.status != "complete"]
        names = names_of(connection, night_id) if partial else {}
        missing = "; ".join(f"{names.get(row.series, row.series)}: {row.missing}" for row in partial)
        night = Night(night_id, label, started, bool(series) and not missing, missing)
        newest = newest or night
        if night.complete:
            return newest, night
    return newest, None


def demo_nights(connection: sa.Connection) -> int:
    """How many nights the demo made."""
    demos = sa.select(sa.func.count()).select_from(NIGHTS).where(NIGHTS.c.kind == "night", NIGHTS.c.demo)
    return int(connection.scalar(demos) or 0)


def missed_hour(connection: sa.Connection, name: str | None, now: datetime) -> str:
    """What is missing, if no night came by the hour that the newest one's configuration says; else empty."""
    query = sa.select(NIGHTS.c.started, NIGHTS.c.zone, NIGHTS.c.config)
    newest = connection.execute(query.where(_own(name)).order_by(NIGHTS.c.started.desc()).limit(1)).one_or_none()
    if newest is None:
        return ""
    asked = due(newest.started, newest.zone, newest.config, now)
    return asked.text if asked.by is not None and asked.late else ""


def _own(name: str | None) -> sa.ColumnElement[bool]:
    """Whether a night is one of that name (None: of any) and not the demo's, and may be the newest."""
    named = [] if name is None else [NIGHTS.c.name == name]
    return sa.and_(NIGHTS.c.kind == "night", sa.not_(NIGHTS.c.demo), begun(NIGHTS.c.night_id), *named)


def names_of_nights(connection: sa.Connection) -> list[str]:
    """The names of all nights but those of the demo."""
    query = sa.select(NIGHTS.c.name).where(NIGHTS.c.kind == "night", sa.not_(NIGHTS.c.demo))
    return sorted(connection.scalars(query.distinct()))
