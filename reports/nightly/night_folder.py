"""The folder of a night: .opscope/nights/<night>, with what was expected, the logs, and the pages made of it.

night.json     NightRecord; what starts or joins the night goes by it
logs/          what pytest said, one file per sweep
<cell>/        the run that all shards together make
summary.md     what is sent
report.html
ended.json     when it was delivered: a night without it is gone on with
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from opscope.harness.record.errors import InputError
from opscope.harness.record.run_folders import runs_root
from opscope.harness.record.store import RUN_FILE, write_whole
from opscope.reports.nightly.config import Config
from opscope.reports.nightly.sweeps import expected_models, labels
from opscope.reports.records.night_record import ENDED, NIGHTS, NightRecord, membership, read_night

RECORD, LOGS, SUMMARY, REPORT = "night.json", "logs", "summary.md", "report.html"

ABANDONED = timedelta(hours=20)
"""A night older than this is not continued, because the next one, of newer code, is due."""


def folder_of(root: Path, night: NightRecord) -> Path:
    """The folder of a night."""
    return root / NIGHTS / night.night_id


def record_of(config: Config, started: datetime) -> NightRecord:
    """The night that starts at `started`. Raises InputError for a model that does not exist."""
    return NightRecord(
        name=config.name,
        started=started,
        zone=config.zone,
        config=dict(config.content),
        models=expected_models(config),
        backends=labels(config.backends),
        archs=config.archs,
        data_formats=config.data_formats,
        shards=config.shards if config.shards > 1 else 0,
    )


def begin(config: Config, root: Path, started: datetime | None, new: bool = False) -> NightRecord:
    """The night to run: the one of that start, else one that was cut short, else a new one; its folder is there.

    A night that was cut short is one of the same configuration and models. Raises InputError where the folder holds
    another night of that start, and where the disk takes no folder.
    """
    night = record_of(config, (started or datetime.now(UTC)).replace(microsecond=0))
    if started is None and not new:
        night = _cut_short(night, root) or night
    folder = folder_of(root, night)
    if (folder / RECORD).is_file():
        stored = read_night(folder / RECORD)
        if stored != night:
            got = "the same night with another configuration"
            raise InputError(str(folder / RECORD), f"the night of {config.path}", got, "another --started, or --new")
        return stored
    write_whole(folder / RECORD, night.model_dump_json(indent=1) + "\n", "a writable folder")
    return night


def _cut_short(night: NightRecord, root: Path) -> NightRecord | None:
    """The newest night of the same configuration that did not end and can be continued."""
    for path in sorted((root / NIGHTS).glob(f"*/{RECORD}"), reverse=True):
        try:
            stored = read_night(path)
        except InputError:
            continue  # of another opscope
        same = stored.model_copy(update={"started": night.started}) == night
        if same and not (path.parent / ENDED).exists() and night.started - stored.started < ABANDONED:
            return stored
    return None


def end(root: Path, night: NightRecord, result: dict[str, object]) -> None:
    """Marks a night as delivered, so that the next start begins a new one."""
    write_whole(folder_of(root, night) / ENDED, json.dumps(result, indent=1) + "\n", "a writable folder")


def runs_of(root: Path, night: NightRecord) -> list[Path]:
    """The folders of the runs that belong to a night, below .opscope/runs."""
    return [run for run in run_folders([runs_root(root)]) if _is_of(run, night)]


def _is_of(run_dir: Path, night: NightRecord) -> bool:
    try:
        member = membership(run_dir)
    except InputError:
        return False
    return member is not None and member.night.night_id == night.night_id


def run_folders(places: list[Path]) -> Iterator[Path]:
    """Yields every run folder that is one of `places` or lies below one, as CI stores artifacts."""
    seen: set[Path] = set()
    for place in places:
        for path in sorted(path for depth in range(4) for path in place.glob(f"{'*/' * depth}{RUN_FILE}")):
            run_dir = path.parent.resolve()
            if path.is_file() and run_dir not in seen:
                seen.add(run_dir)
                yield run_dir


def joined(places: list[Path], root: Path, config: Config, started: datetime | None) -> tuple[NightRecord, list[Path]]:
    """The night whose runs lie in `places`, and these runs; where none lies there, the night of that start.

    Raises InputError: runs of several nights, or none and no start to know the night by.
    """
    runs_of_nights: dict[str, tuple[NightRecord, list[Path]]] = {}
    for run_dir in run_folders(places):
        member = membership(run_dir)
        if member is None or (started is not None and member.night.started != started.replace(microsecond=0)):
            continue
        night, runs = runs_of_nights.setdefault(member.night.night_id, (member.night, []))
        if night != member.night:
            problem = f"`{night.night_id}` with two configurations"
            raise InputError("--join", "runs of one night", problem, "the same file and --started in every job")
        runs.append(run_dir)
    if not runs_of_nights and started is not None:
        night = record_of(config, started.replace(microsecond=0))
        runs_of_nights[night.night_id] = night, []
    if len(runs_of_nights) != 1:
        problem = f"runs of {', '.join(sorted(runs_of_nights))}" if runs_of_nights else "none"
        raise InputError("--join", "the runs of one night", problem, "--started, the same as in every job")
    night, runs = next(iter(runs_of_nights.values()))
    write_whole(folder_of(root, night) / RECORD, night.model_dump_json(indent=1) + "\n", "a writable folder")
    return night, runs
