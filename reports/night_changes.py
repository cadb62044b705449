"""What `opscope diff` and `opscope unblock` say of a night, kept as rows for dashboards: the same words everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from reports import bulk
from reports.diff import QUIET, Label, Row, compare
from reports.history import slower_between_nights
from reports.night_views import night_view, series_of
from reports.outcomes import RunView
from reports.schema_nights import NIGHT_CHANGES, NIGHT_CURVE, NIGHT_FIXES
from reports.unblock import plan

FIRST = "FIRST"
"""In place of a label: the op goes wrong, and there is no night before this one."""


def count_changes(
    connection: sa.Connection, night_id: str, series: str, previous: str, now: RunView | None = None
) -> None:
    """Makes the rows of `night_changes` anew; without a night to compare with, those of the ops that go wrong."""
    _clear(connection, NIGHT_CHANGES, night_id, series)
    if now is None:
        if series not in series_of(connection, night_id):
            return
        now = night_view(connection, night_id, series)
    if previous:
        before = night_view(connection, previous, series)
        found = compare(before, now, slower_between_nights(connection, before, now)).rows
    else:
        nothing = replace(now, ops={})
        found = [replace(row, label=FIRST, note="") for row in compare(nothing, now).rows if row.label == Label.NEW]
    rows = (_change(night_id, series, row) for row in found if row.label not in QUIET)
    bulk.insert(connection, NIGHT_CHANGES, rows)


def _change(night_id: str, series: str, row: Row) -> list[Any]:
    fixed = row.label == Label.FIXED
    told = {
        "night_id": night_id, "series": series, "op_id": row.op_id, "label": row.label, "note": row.note,
        "known": row.known, "cluster": row.cluster, "stage": row.failed_stage,
        "message": row.error_a if fixed else row.error_b, "status_before": row.status_a, "status_now": row.status_b,
        "models": ", ".join(row.models), "model_count": len(row.models), "uses": row.uses, "flaky": row.flaky,
        "pcc_before": row.pcc_a, "pcc_now": row.pcc_b, "cycles_before": row.cycles_a, "cycles_now": row.cycles_b,
        "compile_ms_before": row.compile_ms_a, "compile_ms_now": row.compile_ms_b,
    }  # fmt: skip
    return [told[column.name] for column in NIGHT_CHANGES.columns]


def count_fixes(connection: sa.Connection, night_id: str, series: str) -> RunView | None:
    """Makes the rows of `night_fixes` and `night_curve` anew; the night as it was read, None where it has no run."""
    for table in (NIGHT_FIXES, NIGHT_CURVE):
        _clear(connection, table, night_id, series)
    if series not in series_of(connection, night_id):
        return None
    view: RunView = night_view(connection, night_id, series)
    found = plan(dict.fromkeys(view.models, view))
    fixes = [
        [night_id, series, place, fix.fix, fix.stage, fix.error, ", ".join(fix.op_names), ", ".join(fix.models),
         len(fix.models), fix.alone, fix.uses, fix.ops, fix.known, fix.repro]
        for place, fix in enumerate(found.fixes, 1)
    ]  # fmt: skip
    bulk.insert(connection, NIGHT_FIXES, fixes)
    curve = [
        [night_id, series, step.fixes, step.fix, step.whole, len(found.models), ", ".join(step.unlocked)]
        for step in found.curve
    ]
    bulk.insert(connection, NIGHT_CURVE, curve)
    return view


def _clear(connection: sa.Connection, table: sa.Table, night_id: str, series: str) -> None:
    connection.execute(sa.delete(table).where(table.c.night_id == night_id, table.c.series == series))
