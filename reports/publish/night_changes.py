"""What `opscope diff` and `opscope unblock` say of a night, kept as rows for dashboards: the same words everywhere."""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlalchemy as sa

from opscope.base.labels import QUIET, Label
from opscope.reports.compare.diff import Row, first_rows, labelled_rows
from opscope.reports.compare.history import slower_between_nights
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.unblock import for_good, plan
from opscope.reports.database.schema_nights import (
    NIGHT_CHANGE_MODELS,
    NIGHT_CHANGES,
    NIGHT_CURVE,
    NIGHT_FIXES,
    in_series,
    of_series,
)
from opscope.reports.publish import bulk

_FIELDS = {column.name: column.name.replace("_before", "_a").replace("_now", "_b") for column in NIGHT_CHANGES.columns}
"""Column -> field of a row of a comparison, where there is one."""


def count_changes(connection: sa.Connection, now: RunView, before: RunView | None) -> None:
    """Makes the rows of `night_changes` anew; without a night to compare with, those of the ops that go wrong."""
    for table in (NIGHT_CHANGES, NIGHT_CHANGE_MODELS):
        _clear(connection, table, now.run_id, now.series)
    if before is not None:
        rows = labelled_rows(before, now, slower_between_nights(connection, before, now), QUIET)
    else:
        rows = first_rows(now)
    bulk.insert(connection, NIGHT_CHANGES, (_change(now.run_id, now.series, row) for row in rows))
    ops = [op for row in rows if (op := now.ops.get(row.op_id)) is not None]
    places = ([now.run_id, now.series, op.op_id, model, uses] for op in ops for model, uses in op.uses_of.items())
    bulk.insert(connection, NIGHT_CHANGE_MODELS, places)


def _change(night_id: str, series: str, row: Row) -> list[Any]:
    """Its columns are named as the fields of a row, but for these."""
    values = {
        "night_id": night_id,
        "series": series,
        "stage": row.failed_stage,
        "message": row.error_a if row.label == Label.FIXED else row.error_b,
        "models": ", ".join(row.models),
        "model_count": len(row.models),
    }
    return [values[name] if name in values else getattr(row, field) for name, field in _FIELDS.items()]


def count_fixes(connection: sa.Connection, view: RunView) -> None:
    """Makes the rows of `night_fixes` and `night_curve` anew."""
    night_id, series = view.run_id, view.series
    for table in (NIGHT_FIXES, NIGHT_CURVE):
        _clear(connection, table, night_id, series)
    fix_plan = plan(dict.fromkeys(view.models, view))
    fixes = [
        [
            *(night_id, series, place, fix.fix, fix.stage, fix.error, ", ".join(fix.op_names), ", ".join(fix.models)),
            *(len(fix.models), fix.alone, fix.uses, fix.ops, fix.known, fix.repro),
        ]
        for place, fix in [*enumerate(fix_plan.fixes, 1), *((-at, fix) for at, fix in enumerate(for_good(view), 1))]
    ]
    bulk.insert(connection, NIGHT_FIXES, fixes)
    curve = [
        [night_id, series, step.fixes, step.fix, step.whole, len(fix_plan.models), ", ".join(step.unlocked)]
        for step in fix_plan.curve
    ]
    bulk.insert(connection, NIGHT_CURVE, curve)


def _clear(connection: sa.Connection, table: sa.Table, night_id: str, series: str) -> None:
    connection.execute(rows_of(table), of_series(night_id, series))


@cache
def rows_of(table: sa.Table) -> sa.Delete:
    """Removes the rows of a night in one series."""
    return sa.delete(table).where(in_series(table))
