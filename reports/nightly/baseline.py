"""Finds the night to compare a change with, the newest complete one of a branch, and rates the risk of its ops."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.harness.record import history
from opscope.harness.record.commits.checkout import default_branch
from opscope.harness.record.commits.ci_variables import ci_job
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.stages import Status
from opscope.harness.record.store import lines_of_journal, write_whole
from opscope.reports.compare.night_views import is_night
from opscope.reports.compare.outcomes import RunView
from opscope.reports.database.newest import begun
from opscope.reports.database.schema import NIGHTS, RUNS
from opscope.reports.database.schema_nights import NIGHT_CHANGES, NIGHT_SERIES

MEMORY = 10
"""An op counts as risky if it changed in this many newest nights."""


def baseline_night(connection: sa.Connection, baseline: str) -> str:
    """The id of the newest complete night of the branch or of the name `baseline`, or of the night of that id.

    A night is complete if nothing is missing in any of its series. Raises InputError if there is none.
    """
    if is_night(connection, baseline):
        return baseline
    partial = sa.select(NIGHT_SERIES.c.night_id).where(NIGHT_SERIES.c.status != "complete")
    of_branch = sa.select(RUNS.c.night_id).where(RUNS.c.branch == baseline)
    query = (
        sa.select(NIGHTS.c.night_id)
        .where(NIGHTS.c.kind == "night", sa.not_(NIGHTS.c.demo), NIGHTS.c.night_id.not_in(partial))
        .where(sa.or_(NIGHTS.c.name == baseline, NIGHTS.c.night_id.in_(of_branch)), begun(NIGHTS.c.night_id))
        .order_by(NIGHTS.c.started.desc(), NIGHTS.c.night_id.desc())
        .limit(1)
    )
    night_id = connection.scalar(query)
    if night_id is None:
        nights = sa.select(RUNS.c.branch).join(NIGHTS, NIGHTS.c.night_id == RUNS.c.night_id)
        branches = set(connection.scalars(nights.where(NIGHTS.c.kind == "night"))) - {"", None}
        got = f"none; there are nights of {', '.join(sorted(branches))}" if branches else "no night of any branch"
        hint = closest(baseline, branches - {baseline}) or "opscope nightly on that branch"
        raise InputError("--baseline", f"a complete night of branch `{baseline}`", got, hint)
    return night_id


def first_baseline(connection: sa.Connection, names: Sequence[str]) -> str:
    """The same for the first of `names` that has one. Raises InputError about the first if none has."""
    first: InputError | None = None
    for name in names:
        try:
            return baseline_night(connection, name)
        except InputError as error:
            first = first or error
    raise first or InputError("--baseline", "a branch", "none", "--baseline main")


def usual_baselines(root: Path, night: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What a change is held against unless the user says so, the likeliest first; `night` is the name of the nights."""
    names = (ci_job(environment).target, default_branch(root), "main", "master", night)
    return list(dict.fromkeys(filter(None, names)))


def series_like(connection: sa.Connection, night_id: str, backend: str, arch: str, data_format: str) -> str | None:
    """The series of a night that a sweep with these options belongs to, as far as the options tell before it runs."""
    query = sa.select(NIGHT_SERIES.c.series).where(
        NIGHT_SERIES.c.night_id == night_id, NIGHT_SERIES.c.backend == backend, NIGHT_SERIES.c.arch == arch
    )
    if data_format:
        query = query.where(NIGHT_SERIES.c.data_format == data_format)
    return connection.scalar(query.order_by(NIGHT_SERIES.c.series))


def write_history(connection: sa.Connection, night: RunView, path: Path) -> Path:
    """Writes the risk of each op of a night for `--budget-history`: ops that failed or changed lately run first."""
    lately = (
        sa.select(NIGHT_SERIES.c.night_id)
        .where(NIGHT_SERIES.c.series == night.series, NIGHT_SERIES.c.started <= night.started)
        .order_by(NIGHT_SERIES.c.started.desc())
        .limit(MEMORY)
    )
    changed = sa.select(NIGHT_CHANGES.c.op_id).where(
        NIGHT_CHANGES.c.series == night.series,
        NIGHT_CHANGES.c.night_id.in_(connection.scalars(lately).all()),
        NIGHT_CHANGES.c.label.not_in(["VANISHED", "NEVER-RUN"]),
    )
    risky = set(connection.scalars(changed))
    pasts = {
        op.op_id: history.Past(op.op_id in risky or not op.right, op.compile_seconds)
        for op in night.ops.values()
        if op.attempted
    }
    return write_whole(path, history.text(pasts), "a writable folder")


def kept_and_run(run_dir: Path) -> Mapping[str, int]:
    """Counts the ops of a run: `kept` verdicts that still hold, `ran`, and `not reached`."""
    counts = {"kept": 0, "ran": 0, "not reached": 0}
    newest: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines_of_journal(run_dir):
        test = json.loads(line.text)
        key = test["op_id"], test["backend"]
        if key not in newest or test["attempt"] >= newest[key]["attempt"]:
            newest[key] = test
    for test in newest.values():
        if test["status"] in (Status.NOT_RUN, Status.SKIPPED):
            counts["not reached"] += 1
        else:
            counts["kept" if test.get("cached_from") else "ran"] += 1
    return counts
