"""`opscope dashboard status --json`."""

from __future__ import annotations

from opscope.wire.answer import Answer


class Status(Answer):
    """What is served, and where; null where no server was started here."""

    running: bool
    processes: dict[str, int]
    """Server -> number of its process."""
    url: str | None
    database: str | None
    """Its URL, without a password."""
    artifact_url: str | None
    anonymous: bool | None
    alerts_to: str | None
    alerts_failing: tuple[str, ...]
    """Why alerts do not arrive; empty if they do, or none are sent."""
    installed: bool
    home: str
    environment: str
    """Superset's own environment."""
    admin_password: str | None
    """The file that holds it."""


PRINTS = Status
