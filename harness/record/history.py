"""How each op ended in earlier runs in this folder, and how long it took.

Reads the newest journals line by line and skips whatever cannot be read, because it only decides which op runs first.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from opscope.base import regular_file
from opscope.harness.record import run_folders, store
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import RunContext, backend_label
from opscope.harness.record.records import OpRow
from opscope.harness.record.stages import FAILED, Status

RUNS = 10
"""Largest number of runs that are read. An older run is read only for ops that no newer run has."""

DEFAULT_SECONDS = 0.1
"""Assumed duration of an op as long as none has been measured."""


@dataclass(frozen=True)
class Past:
    """The last time that an op was run."""

    failed: bool
    """Whether it failed, or is risky for a reason that a history file gives. A budget runs such ops first."""
    seconds: float


FORMAT = "opscope_history"
"""First key of a history file; its value is the version of the format."""


def read_file(path: str | None) -> dict[str, Past]:
    """Reads a history file of the form `{"opscope_history": 1, "ops": {ID: [failed, seconds]}}`.

    Raises InputError for any other file.
    """
    if path is None:
        return {}
    try:
        value = json.loads(regular_file.read_text(Path(path)))
        if value[FORMAT] != 1:
            raise ValueError(f"version {value[FORMAT]}")
        return {str(op_id): Past(bool(failed), float(seconds)) for op_id, (failed, seconds) in value["ops"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        raise InputError("--budget-history", "a file that opscope gate wrote", reason, "running without it") from error


def text(pasts: Mapping[str, Past]) -> str:
    """The text of a file that `read_file` reads."""
    return json.dumps({FORMAT: 1, "ops": {op_id: [past.failed, past.seconds] for op_id, past in pasts.items()}}) + "\n"


def past_of_ops(folder: Path, context: RunContext, op_ids: Collection[str]) -> dict[str, Past]:
    """The past of each op that one of the last runs below `folder` ran on the same backend."""
    runs = sorted(run_folders.runs_root(folder).glob(f"*/{store.JOURNAL_DIR}"), reverse=True)
    pasts: dict[str, Past] = {}
    for journal in runs[:RUNS]:
        if journal.parent == Path(context.run_dir):
            continue
        for op_id, past in _in(journal, backend_label(context.backend)).items():
            pasts.setdefault(op_id, past)
        if all(op_id in pasts for op_id in op_ids):
            break
    return pasts


def _in(journal: Path, backend: str) -> dict[str, Past]:
    """The last attempt at each op of one run."""
    attempts: dict[str, tuple[int, Past]] = {}
    for test in _lines(journal):
        try:
            status, attempt = Status(test["status"]), int(test.get("attempt", 1))
            if test["backend"] != backend or status in (Status.SKIPPED, Status.NOT_RUN):
                continue
            past = Past(status in FAILED, sum(float(stage["seconds"]) for stage in test["stages"]))
            if attempt >= attempts.get(test["op_id"], (0, past))[0]:
                attempts[test["op_id"]] = attempt, past
        except (KeyError, TypeError, ValueError):
            continue
    return {op_id: past for op_id, (_, past) in attempts.items()}


def _lines(journal: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(journal.glob("*.jsonl")):
        try:
            lines = path.read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def estimates(rows: Collection[OpRow], past: dict[str, Past]) -> dict[str, float]:
    """Seconds that each op is expected to take.

    The estimate is its own last duration, else the median of ops with its name, else of all ops, else a default.
    """
    by_name: dict[str, list[float]] = {}
    for row in rows:
        if row.op_id in past:
            by_name.setdefault(row.op_name, []).append(past[row.op_id].seconds)
    middles = {name: median(times) for name, times in by_name.items()}
    other = median(middles.values()) if middles else DEFAULT_SECONDS
    return {
        row.op_id: past[row.op_id].seconds if row.op_id in past else middles.get(row.op_name, other) for row in rows
    }
