"""By when a night has to be there, and whether it is: the same for the page, the alert and `opscope status`.

The configuration of a night says it: `by: "07:00"` or `by: "Mon-Fri 07:00"`, in the night's own zone. Without it a
night is late once the newest one is older than a day and a half.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UTC = timezone.utc  # noqa: UP017 - Superset's Python may be 3.10
DAY = timedelta(days=1)
OLD = timedelta(hours=36)
"""From this age on a newest night is late, where nothing says by when a night has to be there."""
WEEK = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TIME = re.compile(rf"(?:({'|'.join(WEEK)})(?:-({'|'.join(WEEK)}))? )?([01]?\d|2[0-3]):([0-5]\d)")
NEWEST = """
SELECT started, zone, config FROM nights
WHERE kind = 'night' AND NOT demo AND night_id NOT IN (SELECT night_id FROM nights_ahead)
ORDER BY started DESC, night_id DESC LIMIT 1"""


@dataclass(frozen=True)
class Hour:
    """The hour by which a night has to be there, and the days of the week on which."""

    hour: int
    minute: int
    days: tuple[int, ...]
    """0 is Monday."""

    @classmethod
    def read(cls, value: object) -> Hour | None:
        """Reads `07:00` or `Mon-Fri 07:00`; None if it is neither. YAML takes 10:00 without quotes for 600 minutes."""
        text = f"{value // 60}:{value % 60:02}" if isinstance(value, int) and value >= 0 else str(value)
        match = TIME.fullmatch(text.strip())
        if match is None:
            return None
        first, last = (WEEK.index(day) if day else None for day in match.group(1, 2))
        days = range(7) if first is None else [first]
        if first is not None and last is not None:
            days = [(first + ahead) % 7 for ahead in range((last - first) % 7 + 1)]
        return cls(int(match[3]), int(match[4]), tuple(days))


@dataclass(frozen=True)
class Due:
    """What is asked of the newest night."""

    since: datetime
    """A newest night that started earlier is late."""
    zone: str
    by: datetime | None
    """The newest moment by which a night had to be there, in its zone; None where nothing says it."""
    started: datetime
    """The start of the newest night."""

    @property
    def late(self) -> bool:
        """Whether the night that had to be there is not."""
        return self.started < self.since

    @property
    def text(self) -> str:
        """What is missing."""
        newest = f"the newest night began {self.started.astimezone(_zone(self.zone)):%Y-%m-%d %H:%M} {self.zone}"
        if self.by is None:
            return f"no night for {OLD.total_seconds() / 3600:.0f} h: {newest}"
        return f"no night by {self.by:%Y-%m-%d %H:%M} {self.zone}: {newest}"


def due(started: datetime, zone: str, config: Mapping[str, Any], now: datetime) -> Due:
    """What is asked of a newest night that began at `started`."""
    hour = Hour.read(config.get("by", ""))
    if hour is None:
        return Due(now - OLD, zone, None, started)
    here = now.astimezone(_zone(zone))
    by = here.replace(hour=hour.hour, minute=hour.minute, second=0, microsecond=0)
    while by > here or by.weekday() not in hour.days:
        by -= DAY
    return Due((by - DAY).astimezone(UTC), zone, by, started)


def overdue(started: datetime, zone: str, config: Mapping[str, Any]) -> datetime:
    """The moment from which on a night that began at `started` is late as the newest one: `due` the other way round."""
    hour = Hour.read(config.get("by", ""))
    if hour is None:
        return started + OLD
    after = started.astimezone(_zone(zone)) + DAY
    by = after.replace(hour=hour.hour, minute=hour.minute, second=0, microsecond=0)
    while by <= after or by.weekday() not in hour.days:
        by += DAY
    return by.astimezone(UTC)


def read(ask: Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]], now: datetime) -> Due | None:
    """What is asked of the newest night of a results database; None where none was ever there, or only the demo's."""
    rows = ask(NEWEST, {})
    if not rows:
        return None
    started, zone, config = rows[0]
    moment = started if isinstance(started, datetime) else datetime.fromisoformat(str(started))
    if moment.tzinfo is None:  # SQLite has it as a text, in UTC
        moment = moment.replace(tzinfo=UTC)
    return due(moment, zone, config if isinstance(config, dict) else json.loads(config or "{}"), now)


def _zone(name: str) -> Any:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC
