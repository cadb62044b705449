"""`opscope db stats --json`."""

from __future__ import annotations

from pydantic import Field

from opscope.wire.answer import Answer


class Statistics(Answer):
    """The size of a database, and the time that it covers."""

    database: str
    """Its URL, without a password."""
    schema_: str = Field(serialization_alias="schema")
    """Revision of its tables."""
    bytes: int
    nights: int
    runs_alone: int
    first: str | None
    """Date and time of the first night in UTC, as `2026-11-19 02:00`; null where there is none."""
    last: str | None
    rows: dict[str, int]
    """Table -> rows."""


PRINTS = Statistics
