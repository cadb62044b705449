"""The dashboard server that slow tests open. Superset is installed once, into pytest's cache of this checkout."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from opscope.dashboards.tests.browser import chromium
from opscope.dashboards.tests.installation import NASTY, Installation, demo_night

NIGHTS = 4


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as one:
        yield one


@contextmanager
def served(pytestconfig: pytest.Config, fill: Callable[[Path, str], None]) -> Iterator[Installation]:
    """A dashboard over a database that `fill` makes: it gets a folder for runs, and the database's URL."""
    # Sockets and PostgreSQL want short paths, and Superset's own files are many: not below pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="opscope-superset-"))
    one = Installation(folder, folder / "results.sqlite")
    patch = pytest.MonkeyPatch()
    assert pytestconfig.cache is not None
    patch.setenv("OPSCOPE_CACHE_DIR", str(pytestconfig.cache.mkdir("superset")))
    try:
        fill(folder / "runs", f"sqlite:///{one.database}")
        one.up()
        yield one
        one.run("down")
    finally:
        patch.undo()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def installation(pytestconfig: pytest.Config) -> Iterator[Installation]:
    with served(pytestconfig, four_nights) as one:
        yield one


def four_nights(runs: Path, url: str) -> None:
    """The last nights of the demo, and one with names that are markup."""
    from opscope.reports.demo.replay import nights, write_night
    from opscope.reports.publish.publish import publish
    from opscope.reports.records.night_record import join
    from opscope.reports.tests.nights import Op, night

    last = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0) - timedelta(days=1)
    for each in nights(last, 0, NIGHTS):
        for run_dir in write_night(runs, each):
            publish(run_dir, url)
    ops = {"sine": Op("compile_failed", {NASTY: 3}, error=f"{NASTY} <i>is</i> not taken")}
    odd = night(runs, 20, ops, started=last + timedelta(hours=1), arch="e150")
    join(odd, demo_night(last + timedelta(hours=1), "e150", NASTY), 0)
    publish(odd, url)
