"""Publishes the runs of a night, and joins the shards of each cell into one run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opscope.base.own_command import own_command
from opscope.base.results_folder import make_folder
from opscope.harness.record.errors import InputError
from opscope.harness.record.store import RUN_FILE, read_run
from opscope.reports.database.database import DatabaseAwayError, parse_url, shown
from opscope.reports.database.owners import Rule, store_owners
from opscope.reports.nightly.night_folder import LOGS, folder_of
from opscope.reports.publish import spool
from opscope.reports.publish.counting import open_counted
from opscope.reports.publish.sentences import renew_newest
from opscope.reports.records.night_record import NightRecord

SHARD_FILE = "shard.json"
"""File in the folder of a run with `--shard`; the joined run has none."""


@dataclass(frozen=True)
class Delivered:
    """Result of publishing the runs of a night."""

    place: str
    """The database, without a password."""
    published: tuple[str, ...] = ()
    """Ids of the runs that were published."""
    from_spool: tuple[str, ...] = ()
    """Ids of runs that were published from the spool."""
    spooled: tuple[str, ...] = ()
    """Ids of the runs that wait in the spool now."""
    refused: tuple[str, ...] = field(default=())
    """One line for each run that the database refuses for good."""
    away: str = ""
    """The database's error if it could not be reached."""
    lost: tuple[str, ...] = ()
    """One line for each run that is neither in the database nor in the spool."""
    others: tuple[str, ...] = ()
    """One line for each run of another night that waits on, or that the database refused."""

    @property
    def line(self) -> str:
        """What became of the runs, in one line."""
        counts = {
            "published": len(self.published),
            "kept in the spool": len(self.spooled),
            "refused and set aside": len(self.refused),
            "in neither": len(self.lost),
            "of other nights refused or kept": len(self.others),
        }
        return f"{', '.join(f'{number} {what}' for what, number in counts.items() if number) or 'no run'}: {self.place}"


def publish(runs: Sequence[Path], url: str, root: Path) -> Delivered:
    """Publishes the runs of a night, each in a transaction of its own. Raises nothing: problems are in the result.

    Once the database cannot be reached, the other runs go to the spool at once, so the timeout is waited for only once.
    """
    runs_that: dict[str, list[str]] = {name: [] for name in ("published", "from_spool", "spooled", "refused", "lost")}
    notes: dict[str, None] = {}
    away = ""
    for run_dir in runs:
        try:
            run_id = read_run(run_dir).run_id
            if away:
                spool.keep(run_dir, url, root)
                runs_that["spooled"].append(run_id)
                continue
            delivery = spool.deliver(run_dir, url, root, "--database")
        except InputError as error:
            runs_that["lost"].append(str(error))
            continue
        runs_that["from_spool"] += delivery.from_spool
        notes |= dict.fromkeys((*(each.line for each in delivery.earlier), *map(str, delivery.others)))
        problem = delivery.problem
        if problem is None:
            runs_that["published"].append(run_id)
        elif delivery.lost:
            runs_that["lost"].append(str(problem))
        elif isinstance(problem, DatabaseAwayError):
            away = f"{problem.where}: expected {problem.expected}, got {problem.got}"
            runs_that["spooled"].append(run_id)
        else:
            runs_that["refused"].append(str(problem))
    known = {name: tuple(lines) for name, lines in runs_that.items()}
    return Delivered(shown(parse_url(url)), away=away, others=tuple(notes), **known)


def name_owners(rules: Sequence[Rule], url: str) -> list[str]:
    """Stores the rules of owners in the database, so that dashboards name the same teams; returns problems."""
    try:
        with open_counted(url, "--database") as connection:
            store_owners(connection, rules)
            renew_newest(connection)
    except InputError as error:
        return [str(error)]
    return []


def merge(runs: Sequence[Path], night: NightRecord, root: Path) -> tuple[dict[str, Path], list[str]]:
    """Joins the shards of each cell: cell -> run folder, and one line for each cell that could not be joined.

    A run without shards is the run of its cell.
    """
    folder = folder_of(root, night)
    merged: dict[str, Path] = {}
    shards: dict[str, list[Path]] = {}
    problems: list[str] = []
    for run_dir in runs:
        cell = _cell(run_dir)
        if (run_dir / SHARD_FILE).is_file():
            shards.setdefault(cell, []).append(run_dir)
        else:
            merged[cell] = run_dir
    for cell, shard_dirs in shards.items():
        into = _free(folder, cell)
        # A process of its own: joining belongs to another room.
        command = own_command("merge", *map(str, shard_dirs), "--into", str(into), "--partial")
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        log = folder / LOGS / f"merge-{into.name}.txt"
        make_folder(log.parent)
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        if (into / RUN_FILE).is_file():
            merged[cell] = into
        else:
            lines = done.stderr.strip().splitlines()
            problems.append(lines[-1] if lines else f"opscope merge: expected {into}, got nothing; try {log}")
    return merged, problems


def _cell(run_dir: Path) -> str:
    """The folder name that all shards of one sweep share."""
    from opscope.harness.record.run_folders import file_name

    record = read_run(run_dir)
    parts = (record.backend, record.arch, record.origin.options.get("data_format"))
    return file_name("-".join(str(part) for part in parts if part))


def _free(folder: Path, cell: str) -> Path:
    """A new folder for a joined run: after a late shard the runs are joined again, beside the earlier result."""
    into, number = folder / cell, 1
    while into.exists():
        number += 1
        into = folder / f"{cell}-{number}"
    return into
