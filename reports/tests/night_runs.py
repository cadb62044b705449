"""Runs that belong to nights, made to measure, for tests of what nights are."""

from __future__ import annotations

import functools
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.harness.record.records import WHOLE_MODEL
from opscope.harness.record.store import WHOLE_FILE, load_run
from opscope.reports.database.database import open_database
from opscope.reports.publish.publish import publish
from opscope.reports.records.night_record import NightRecord, join
from opscope.reports.tests.nights import START, Op, night


@functools.cache
def _template() -> bytes:
    """An empty database, made once: its views take longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "db.sqlite"
        with open_database(f"sqlite:///{path}"):
            pass
        return path.read_bytes()


def fresh(path: Path) -> str:
    """The URL of an empty database at `path`."""
    path.write_bytes(_template())
    return f"sqlite:///{path}"


def copied(built: Path, folder: Path) -> str:
    """The URL of `db.sqlite` in `folder`, into which goes all that a fixture has built once for the tests of a file."""
    shutil.copytree(built, folder, dirs_exist_ok=True)
    return f"sqlite:///{folder}/db.sqlite"


def copy_of(url: str, path: Path) -> str:
    """The URL of a copy at `path` of the SQLite database at `url`: what several tests begin with is published once."""
    shutil.copyfile(url.removeprefix("sqlite:///"), path)
    return f"sqlite:///{path}"


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """What a query answers: of a file of SQLite as SQLite says it."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return file.execute(query).fetchall()
    with open_database(url) as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


def record(number: int, **more: Any) -> NightRecord:
    """The night of that number: one backend, one board, the models `a` and `b`."""
    expected: dict[str, Any] = {
        "started": START + timedelta(days=number),
        "models": ("a", "b"),
        "backends": ("reference",),
        "archs": ("n150",),
        "config": {"budget": "30m"},
    } | more
    return NightRecord(**expected)


def shard_run(
    folder: Path,
    night_record: NightRecord,
    number: int,
    ops: Mapping[str, Op],
    shard: int = 0,
    models: tuple[str, ...] = (),
    **more: Any,
) -> Path:
    """A run of that night; `number` tells runs apart and sets when it started."""
    run_dir = night(folder, number, ops, models, **more)
    join(run_dir, night_record, shard)
    return run_dir


def run_whole(run_dir: Path, models: Mapping[str, Op], **run: Any) -> None:
    """Adds to a run what `--op-by-op-on-fail` leaves of the models that it ran as one program before their ops.

    `run`: the backend and so on, where the run is not on the reference."""
    whole = {name: replace(op, uses={name: 1}, more={**op.more, "op_name": WHOLE_MODEL}) for name, op in models.items()}
    with tempfile.TemporaryDirectory() as folder:
        tests = load_run(night(Path(folder), 0, whole, **run)).tests
    (run_dir / WHOLE_FILE).write_text("".join(f"{test.model_dump_json()}\n" for test in tests))


def publish_night(url: str, folder: Path, number: int, ops: Mapping[str, Op], **more: Any) -> str:
    """Publishes a night of one run; its id."""
    night_record = record(number, **more)
    publish(shard_run(folder, night_record, number, ops), url)
    return night_record.night_id
