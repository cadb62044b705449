"""Night by cause at the beginning of report.html: a column for each date of a database, one for a run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base.labels import Label
from opscope.base.night_grid.commit_pages import page_of_range
from opscope.base.night_grid.grid import MOST, Cause, Count, Detail, Grid, Known, Night, Since, build, read
from opscope.base.places import room
from opscope.reports.compare.diff import Diff
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.owned import Owned
from opscope.reports.compare.unblock import FixPlan, for_good, is_never_fixed
from opscope.reports.database.owners import owner

ROWS = room("base/night_grid")
"""The folder of the rows' template and style, which the dashboard server has too."""
STYLE = "night_rows.css"
EVERY = 1_000_000
"""Rows, before those of a team are chosen."""


def of_night(connection: sa.Connection, night: sa.RowMapping, runs: Path, out: Path, owned: Owned) -> Grid:
    """The rows up to a night, a row of `nights`; a log is a link from `out` to its file below `runs`."""

    def ask(query: str, values: Mapping[str, Any]) -> Any:
        return connection.execute(sa.text(query), values).all()

    started = night["started"]
    grid = _owned(read(ask, started, page_of_range, until=started, kind=night["kind"], most=EVERY), owned)
    logs = [link(runs / cause.detail.log, out) if cause.detail.log else "" for cause in grid.causes]
    causes = (
        replace(cause, detail=replace(cause.detail, log=log)) for cause, log in zip(grid.causes, logs, strict=True)
    )
    return replace(grid, causes=tuple(causes))


Side = tuple[RunView, Diff | None, FixPlan]
"""What a run says of one of its backends, compared with the run before, and its causes."""


def of_run(sides: Sequence[Side], owned: Owned) -> Grid:
    """The causes of one run; what fails anew, and since when, where there is a run to compare it with."""
    nights: list[Night] = []
    counts: dict[tuple[str, str, str], Count] = {}
    details: dict[tuple[str, str], Detail] = {}
    since: dict[str, list[Since]] = {}
    for view, diff, plan in sides:
        nights.append(_night(view))
        details |= _details(view, diff, plan)
        rows = diff.rows if diff is not None else ()
        anew = [row.cluster for row in rows if row.news and row.label in (Label.NEW, Label.REASON_CHANGED)]
        bad = [op for op in view.ops.values() if op.bad and op.uses_of]
        expected = Counter(op.cause for op in bad if op.expected)
        for cause, ops in Counter(op.cause for op in bad).items():
            counts[view.run_id, view.series, cause] = Count(ops, anew.count(cause), expected[cause])
            series = view.name if len(sides) > 1 else ""
            since.setdefault(cause, []).extend(_since(cause, diff, series))
    grid = build(nights, counts, Known(details), (nights[0].date,), most=EVERY)
    causes = (replace(cause, since=tuple(since.get(cause.cluster, ()))) for cause in grid.causes)
    return _owned(replace(grid, causes=tuple(causes)), owned)


def _night(view: RunView) -> Night:
    return Night(
        view.run_id,
        view.series,
        view.backend,
        view.board,
        f"{view.started:%Y-%m-%d}",
        view.started,
        view.outcome == "complete",
    )


def _details(view: RunView, diff: Diff | None, plan: FixPlan) -> dict[tuple[str, str], Detail]:
    """(series, cause) -> what is said of it."""
    notes = view.notes or (diff.a.notes if diff is not None else {})
    logs = {op.cause: op.artifact for op in sorted(view.ops.values(), key=lambda op: op.uses) if op.artifact}
    alone = _alone(view)
    return {
        (view.series, fix.cluster): Detail(
            message=fix.error,
            stage=fix.stage,
            op_names=", ".join(fix.op_names),
            models=fix.models,
            alone=tuple(model for model, cluster in alone if cluster == fix.cluster),
            uses=fix.uses,
            expected=fix.known == fix.ops,
            flaky=fix.flaky,
            repro=fix.repro,
            log=logs.get(fix.cluster, ""),
            remark=notes[fix.cluster].line(view.day) if fix.cluster in notes else "",
        )
        for fix in (*plan.fixes, *for_good(view))
    }


def _alone(view: RunView) -> list[tuple[str, str]]:
    """(model, cause) of the models that one cause alone holds back."""
    found = []
    for model in view.models:
        ops = [op for op in view.ops.values() if model in op.uses_of]
        causes = {op.cause for op in ops if op.bad}
        if len(causes) == 1 and all(op.attempted and not is_never_fixed(op) for op in ops):
            found.append((model, causes.pop()))
    return found


def _since(cluster: str, diff: Diff | None, series: str) -> Iterable[Since]:
    if diff is None:
        return
    day = f"{diff.a.started:%Y-%m-%d}"
    if any(op.bad and op.cause == cluster for op in diff.a.ops.values()):
        yield Since(series, f"before {day}", f"it failed in {diff.a.run_id} too")
    else:
        commits, url = (diff.since.text, diff.since.url) if diff.since is not None else ("", "")
        yield Since(series, commits or f"after {day}", f"{diff.a.run_id} did not have it", url=url)


def _owned(grid: Grid, owned: Owned) -> Grid:
    """The rows that `owned` lists, with their owners by its rules, if it has some."""
    causes = [_with_owner(cause, owned) for cause in grid.causes]
    listed = [cause for cause in causes if owned.lists(cause.detail.owner)]
    fixed = sum(bool(cause.fixed) for cause in listed[MOST:])
    return replace(grid, causes=tuple(listed[:MOST]), more_failing=max(0, len(listed) - MOST) - fixed, more_fixed=fixed)


def _with_owner(cause: Cause, owned: Owned) -> Cause:
    if not owned.rules:
        return cause
    detail = cause.detail
    team = owner(owned.rules, detail.op_names.split(", "), detail.stage, cause.cluster, detail.models)
    return replace(cause, detail=replace(detail, owner=team))


def link(path: Path, out: Path) -> str:
    """The relative path from the page to a file; empty if the file does not exist."""
    return os.path.relpath(path, out.parent) if path.is_file() else ""
