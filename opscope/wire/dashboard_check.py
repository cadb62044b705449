"""`opscope dashboard check --json`: what was tried. `error` is empty where it works."""

from __future__ import annotations

from pydantic import MISSING

from opscope.wire.answer import Answer


class Chart(Answer):
    """A chart, whose query was run."""

    dashboard: str
    chart: str
    rows: int
    error: str
    sql: str
    seconds: float


class Alert(Answer):
    """An alert, whose query was run."""

    alert: str
    on: bool
    value: float | None
    sent: bool
    """Whether Superset would send it."""
    error: str


class Link(Answer):
    """One link of a kind, which was followed."""

    link: str
    leads_to: str
    error: str
    not_followed: str | MISSING = MISSING
    """Why a log was not asked for; else left out."""


PRINTS = list[Chart | Alert | Link]
