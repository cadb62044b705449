"""`opscope status --json`."""

from __future__ import annotations

from datetime import datetime

from opscope.reports.database import status
from opscope.wire.answer import Answer, Time


class Night(Answer):
    """A night of the database."""

    night_id: str
    started: Time
    missing: str
    """What is missing, by series; empty if the night is complete."""
    age_hours: float


def night_of(night: status.Night | None, now: datetime) -> Night | None:
    """A night as `--json` prints it."""
    if night is None:
        return None
    hours = round(night.age(now).total_seconds() / 3600, 3)
    return Night(night_id=night.night_id, started=night.started, missing=night.missing, age_hours=hours)


class Refused(Answer):
    """A run that the database refused, and that was set aside."""

    folder: str
    reason: str


class Status(Answer):
    """Whether nights arrive."""

    newest: Night | None
    newest_complete: Night | None
    spool: tuple[str, ...]
    """Runs that wait for the database."""
    refused: tuple[Refused, ...]
    late: bool
    """Whether no complete night is younger than --max-age."""
    missed: str
    """What is missing, if no night came by the hour that its configuration says; else empty."""
    unsent: tuple[str, ...]
    """A line for each receiver that the message of the newest night here did not reach."""
    demo_nights: int
    ahead: str
    """The nights that are dated later than now; empty if there are none."""


PRINTS = Status
