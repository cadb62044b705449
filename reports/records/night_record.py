"""A night: runs that belong together, and what was expected of them.

    RUN/night.json    Membership: the night that a run belongs to, and which shard of it the run is

The file stands in the run's folder, so that a shard can be published late, from another machine, with nothing else at
hand. Runs agree on a night by its name and its start, which whoever starts the night hands to all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator

from opscope.base.digest import json_digest
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import Record
from opscope.harness.record.store import write_whole

NIGHT_FILE = "night.json"
NIGHT_SCHEMA = 1


class Cell(NamedTuple):
    """One thing that is expected of a night."""

    backend: str
    arch: str
    data_format: str
    """Empty: whatever the backend takes by itself."""
    model: str


class NightRecord(Record):
    """One night: its name and start, its configuration, and what is expected."""

    schema_version: int = NIGHT_SCHEMA
    name: str = "nightly"
    started: datetime
    zone: str = "UTC"
    """The zone in which the night's date is told, `Europe/Berlin`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The configuration that it was started with, as it was read."""
    models: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    data_formats: tuple[str, ...] = ()
    """Empty: whatever each backend takes by itself."""
    shards: int = 0
    """How many shards report; 0: it is not cut into shards."""
    demo: bool = False
    """Made by `opscope demo`: shown, and told apart from what was found."""

    @field_validator("started")
    @classmethod
    def _with_zone(cls, value: datetime) -> datetime:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    @field_validator("zone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"expected a time zone such as Europe/Berlin, got `{value}`") from error
        return value

    @property
    def night_id(self) -> str:
        """`nightly-20261120-020000`, of the start in UTC: two nights on one date are two."""
        return f"{re.sub(r'[^A-Za-z0-9_.+-]+', '_', self.name)}-{self.started:%Y%m%d-%H%M%S}"

    @property
    def label(self) -> str:
        """Date and time of its start in its zone."""
        return f"{self.started.astimezone(ZoneInfo(self.zone)):%Y-%m-%d %H:%M}"

    @property
    def config_hash(self) -> str:
        """Twelve digits, equal for equal configurations; empty without one."""
        if not self.config:
            return ""
        return json_digest(self.config, digits=12)

    def cells(self) -> Iterator[Cell]:
        """Every combination that is expected."""
        formats = self.data_formats or ("",)
        return itertools.starmap(Cell, itertools.product(self.backends, self.archs, formats, self.models))


class Membership(Record):
    """What RUN/night.json holds."""

    night: NightRecord
    shard: int = 0
    """Which of the night's shards the run is, counted from 1; 0: none."""


def join(run_dir: Path, night: NightRecord, shard: int = 0) -> Path:
    """Makes the run in `run_dir` a part of `night`; the file that says so. Raises InputError for a wrong shard."""
    if not 0 <= shard <= max(night.shards, 0):
        raise InputError("--shard", f"a number up to {night.shards}", str(shard), "the number of the shard, from 1")
    text = Membership(night=night, shard=shard).model_dump_json(indent=1) + "\n"
    return write_whole(run_dir / NIGHT_FILE, text, "another --run-dir")


def membership(run_dir: Path) -> Membership | None:
    """The night that the run in `run_dir` belongs to; None for a run by itself. Raises InputError for another file."""
    path = run_dir / NIGHT_FILE
    return _read(path, Membership) if path.exists() else None


def read_night(path: Path) -> NightRecord:
    """A night as `--night FILE` names it: the record itself, or the file in a run of that night."""
    try:
        return _read(path, NightRecord)
    except InputError as error:
        try:
            return _read(path, Membership).night
        except InputError:
            raise error from None


def _read(path: Path, kind: Any) -> Any:
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise InputError(str(path), "the file of a night", reason or "unreadable", "opscope publish RUN_DIR") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(str(path), "the record of a night", f"{place}: {first['msg']}", "docs/nights.md") from error
