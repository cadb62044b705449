"""Tests write databases without waiting for the disk: there are hundreds of writes, and no test cuts the power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from opscope.reports.tests import postgres_server
from opscope.reports.tests.night_runs import fresh


def _hurry(connection: Any, _: object) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Of SQLite, in this process alone: what tests start as processes of their own writes as it does for users."""
    event.listen(sa.Engine, "connect", _hurry)
    yield
    event.remove(sa.Engine, "connect", _hurry)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def new(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Makes an empty database of either kind and returns its URL; the test's folder is the current one."""
    monkeypatch.chdir(tmp_path)
    if request.param == "postgresql":
        return postgres_server.shared().database
    numbers = count()
    return lambda: fresh(tmp_path / f"db{next(numbers)}.sqlite")
