"""The times of nights as texts, each with its zone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from opscope.reports.database.schema import NIGHTS


def with_zones(connection: sa.Connection, nights: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The nights, each with the time zone of its label."""
    ids = {night["night_id"] for night in nights}
    asked = sa.select(NIGHTS.c.night_id, NIGHTS.c.zone).where(NIGHTS.c.night_id.in_(ids))
    zones = dict(connection.execute(asked).all())
    return [{**night, "zone": zones.get(night["night_id"], "")} for night in nights]


def timed(label: str, zone: str) -> str:
    """The label of a night with its zone, if it is a time: that of a release is none."""
    return f"{label} {zone}".rstrip() if ":" in label else label


def night_column(nights: Sequence[tuple[str, str]]) -> tuple[str, list[str]]:
    """The head and the cells of a column of nights, given their labels and zones; a zone that all have stands in the
    head."""
    zones = {zone for label, zone in nights if ":" in label}
    if len(zones) == 1:
        return f"night ({zones.pop()})", [label for label, _ in nights]
    return "night", [timed(*night) for night in nights]
