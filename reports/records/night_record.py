"""A night: runs that belong together, and which results were expected of them.

A night of a release is one of a compiler that was published earlier, recorded afterwards (`opscope history`). Its axis
is the version and not the time: its nights stand in the order of releases, and none of them is ever the newest.

    RUN/night.json    Membership: the night that a run belongs to, and which shard of it the run is

The file is in the run's folder, so that a shard can be published late and from another machine, without any other file.
Runs belong to the same night if its name and start are the same; whoever starts the night passes both to all its runs.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, ValidationError, field_validator

from opscope.base import stored
from opscope.base.damage import Damaged
from opscope.base.digest import json_digest
from opscope.base.regular_file import read_bytes
from opscope.base.results_folder import NAME
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import Record
from opscope.harness.record.store import write_whole

NIGHT_FILE = "night.json"
NIGHT_SCHEMA = 1
NIGHTS, ENDED = Path(NAME) / "nights", "ended.json"
"""The folders of nights below that of a project, and the file in one that says what came of it."""


TIME, VERSION = "time", "version"
"""What the nights of a series follow each other by."""


class Cell(NamedTuple):
    """One combination that is expected of a night."""

    backend: str
    arch: str
    data_format: str
    """If empty, the backend uses its own default."""
    model: str


class NightRecord(Record):
    """One night: its name and start, its configuration, and what is expected."""

    schema_version: int = NIGHT_SCHEMA
    name: str = "nightly"
    started: datetime
    zone: str = "UTC"
    """The time zone of the night's date, such as `Europe/Berlin`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The configuration that the night was started with, as it was read from the file."""
    models: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    data_formats: tuple[str, ...] = ()
    """If empty, each backend uses its own default."""
    shards: int = 0
    """Number of shards that report; 0 if the night is not sharded."""
    demo: bool = False
    """Whether `opscope demo` made the night; such nights are shown and marked as demo data."""
    release: str = ""
    """Of a night of a release: the release, `0.1.2`. `started` is then when it was made, or stands between those of the
    releases around it."""

    @property
    def axis(self) -> str:
        """`version` of a night of a release, else `time`."""
        return VERSION if self.release else TIME

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
        """`nightly-20261120-020000`, with the start in UTC, so that two nights on one date have different ids.

        Of a night of a release its name alone, which has the release: no two of a name are wanted.
        """
        name = re.sub(r"[^A-Za-z0-9_.+@-]+" if self.release else r"[^A-Za-z0-9_.+-]+", "_", self.name)
        return name if self.release else f"{name}-{self.started:%Y%m%d-%H%M%S}"

    @property
    def label(self) -> str:
        """Date and time of the start in the night's time zone."""
        return f"{self.started.astimezone(ZoneInfo(self.zone)):%Y-%m-%d %H:%M}"

    @property
    def config_hash(self) -> str:
        """Twelve hexadecimal digits, equal for equal configurations; empty without a configuration."""
        if not self.config:
            return ""
        return json_digest(self.config, digits=12)

    def cells(self) -> Iterator[Cell]:
        """Every combination that is expected."""
        formats = self.data_formats or ("",)
        return itertools.starmap(Cell, itertools.product(self.backends, self.archs, formats, self.models))


class Membership(Record):
    """The content of RUN/night.json."""

    night: NightRecord
    shard: int = 0
    """Which of the night's shards the run is, counted from 1; 0 if it is not a shard."""


def join(run_dir: Path, night: NightRecord, shard: int = 0) -> Path:
    """Adds the run in `run_dir` to `night` and returns the file written. Raises InputError for a wrong shard."""
    if not 0 <= shard <= max(night.shards, 0):
        raise InputError("--shard", f"a number up to {night.shards}", str(shard), "the number of the shard, from 1")
    text = Membership(night=night, shard=shard).model_dump_json(indent=1)
    return write_whole(run_dir / NIGHT_FILE, stored.sealed(text) + b"\n")


def membership(run_dir: Path) -> Membership | None:
    """Reads the night that the run in `run_dir` belongs to, None if none. Raises InputError for an invalid file."""
    path = run_dir / NIGHT_FILE
    return _read(path, Membership) if path.exists() else None


def read_night(path: Path) -> NightRecord:
    """Reads the file of `--night FILE`: a night's record, or the night.json of a run of that night."""
    try:
        return _read(path, NightRecord)
    except InputError as error:
        try:
            return _read(path, Membership).night
        except InputError:
            raise error from None


def _read(path: Path, kind: Any) -> Any:
    try:
        return kind.model_validate_json(stored.unsealed(read_bytes(path).removesuffix(b"\n"), where=path))
    except (OSError, Damaged) as error:
        reason = error.strerror if isinstance(error, OSError) else error.got
        raise InputError(str(path), "the file of a night", reason or "unreadable", "opscope publish RUN_DIR") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(
            str(path),
            "the record of a night",
            f"{place}: {first['msg']}" if place else first["msg"],
            '{"started": "2026-12-31T01:00:00Z", "models": ["resnet50"]}',
        ) from error


def unsent(root: Path) -> tuple[str, list[str]]:
    """The newest night here that has ended, and one line for each receiver that its message did not reach."""
    ended = sorted((root / NIGHTS).glob(f"*/{ENDED}"), key=lambda path: path.stat().st_mtime)
    if not ended:
        return "", []
    try:
        lines = json.loads(ended[-1].read_text(encoding="utf-8"))["unsent"]
    except (OSError, ValueError, KeyError, TypeError):
        lines = []  # of another opscope
    return ended[-1].parent.name, lines
