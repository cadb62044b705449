"""Publishes reports of `opscope benchmark`; those whose database is away wait as .opscope/spool/<database>/benchmarks/.

<digest of the report>.json     a report as the command writes it, with its start and machine
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.base.digest import words_digest
from opscope.base.inner_path import inside
from opscope.base.results_folder import make_folder
from opscope.harness.record.errors import InputError
from opscope.reports.database.database import DatabaseAwayError, open_database, shown, usable_url
from opscope.reports.database.rows import Row
from opscope.reports.database.schema import BENCHMARKS
from opscope.reports.database.upsert import upsert
from opscope.reports.publish.spool import folder_of, kept_for_later, set_run_aside
from opscope.reports.records.kept_runs import REPORTS

Report = Mapping[str, Any]


def publisher(url: str, where: str) -> Callable[[Report], str]:
    """Checks the URL before anything is measured; what publishes a report there, and says so. Raises InputError.

    A report whose database is away is kept in the spool: then it raises DatabaseAwayError, which names the file.
    """
    place = shown(usable_url(url, where))

    def publish(report: Report) -> str:
        late = deliver(report, url, Path.cwd(), where)
        return f"published to {place}" + (f", with {late} that waited" if late else "")

    return publish


def deliver(report: Report, url: str, root: Path, where: str) -> int:
    """Publishes a report and those that waited; how many waited. Raises DatabaseAwayError after keeping the report."""
    file = _keep(report, url, root)  # first, so that nothing that happens to the database can lose it
    try:
        return drain(url, root, where) - 1
    except DatabaseAwayError as error:
        raise kept_for_later(error, file) from error


def drain(url: str, root: Path, where: str = "--to") -> int:
    """Publishes the reports that wait for that database, in one transaction; their number.

    Raises DatabaseAwayError if the database is away; then all still wait. Raises InputError for a file that holds no
    report, which is set aside, after the others have been published.
    """
    rows: dict[Path, Row] = {}
    unreadable: list[InputError] = []
    for file in sorted((folder_of(url, root) / REPORTS).glob("*.json")):
        try:
            rows[file] = _read(file)
        except FileNotFoundError:
            continue  # another process has delivered it
        except InputError as error:
            unreadable.append(set_run_aside(file, url, root, error))
    if rows:
        with open_database(url, where) as connection:
            upsert(connection, BENCHMARKS, list(rows.values()))
    for file in rows:
        file.unlink(missing_ok=True)
    if unreadable:
        first, more = unreadable[0], f"{len(unreadable) - 1} more like it; " if unreadable[1:] else ""
        others = f"; {more}{len(rows)} other report{'' if len(rows) == 1 else 's'} published"
        raise InputError(first.where, first.expected, first.got + others, first.hint) from first
    return len(rows)


def row(report: Report) -> Row:
    """The row of a report. Raises KeyError, TypeError or ValueError for what is none."""
    seconds = report.get("seconds", {})
    derived = {
        "benchmark_id": _digest(report),
        "started": datetime.fromisoformat(report["started"]),
        "board": report.get("board", ""),
        "compiler": report.get("compiler", ""),
        **{f"{part}_seconds": seconds.get(part) for part in ("push", "device", "pop", "total")},
    }
    optional = {column.name for column in BENCHMARKS.columns if column.nullable}
    return {
        name: derived[name] if name in derived else report.get(name) if name in optional else report[name]
        for name in BENCHMARKS.columns.keys()  # noqa: SIM118 - iterating the collection itself yields columns
    }


def _digest(report: Report) -> str:
    return words_digest(json.dumps(report, sort_keys=True), digits=16)


def _keep(report: Report, url: str, root: Path) -> Path:
    folder = folder_of(url, root) / REPORTS
    file = folder / f"{_digest(report)}.json"
    try:
        make_folder(inside(folder, file.name).parent)
        write_whole(file, json.dumps(report, indent=2) + "\n")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(str(file), "a writable place", reason, "a folder with room for .opscope") from error
    return file


def _read(file: Path) -> Row:
    try:
        return row(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(str(file), "a readable report", error.strerror or str(error), "another owner") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        got = f"{type(error).__name__}: {error}"
        raise InputError(str(file), "a report of `opscope benchmark`", got, "removing it") from error
