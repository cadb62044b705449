"""Tests write databases without waiting for the disk: there are hundreds of writes, and no test cuts the power."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event


def _hurry(connection: Any, _: object) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Of SQLite, in this process alone: what tests start as processes of their own writes as it does for users."""
    event.listen(sa.Engine, "connect", _hurry)
    yield
    event.remove(sa.Engine, "connect", _hurry)
