"""Causes that a database holds, made anew where the rules by which causes are told apart are others by now."""

from __future__ import annotations

import sqlalchemy as sa

from opscope.harness.record.causes import UNSPLITTABLE, cause_of
from opscope.harness.record.stages import Stage
from opscope.reports.database.schema import NOTES, OP_TESTS, OPS

SAYS = ("status", "failed_stage", "stage_reached", "error_message", "crash_kind", "hypothesis")
"""Columns of `op_tests` that a cause follows from, beside the op's name and element type."""


def recompute(connection: sa.Connection) -> None:
    """Stores the cause of each record by the rules of now, so that no failure is new by an upgrade alone.

    The note of a cause, and with it its acknowledgement, passes to every cause that its ops have now, unless that has a
    note of its own.
    """
    key = [OP_TESTS.c[name] for name in ("run_id", "op_id", "backend", "attempt")]
    query = sa.select(*key, OP_TESTS.c.cause, OPS.c.op_name, OPS.c.dtype, *(OP_TESTS.c[name] for name in SAYS))
    query = query.join(OPS, OPS.c.op_id == OP_TESTS.c.op_id).where(OP_TESTS.c.cause.is_not(None))
    parts: dict[str, set[str]] = {}
    moved = []
    for row in connection.execute(query):
        error, crash, stage = row.error_message or "", row.crash_kind or "", row.failed_stage or row.stage_reached
        cause = cause_of(row.status, stage, row.op_name, row.dtype, error, crash, row.hypothesis)
        parts.setdefault(row.cause, set()).add(cause)
        if cause != row.cause:
            moved.append({"new": cause, **{f"its_{column.name}": getattr(row, column.name) for column in key}})
    where = sa.and_(*(column == sa.bindparam(f"its_{column.name}") for column in key))
    if moved:
        connection.execute(sa.update(OP_TESTS).where(where).values(cause=sa.bindparam("new")), moved)
    for row in connection.execute(sa.select(OPS).where(OPS.c.cause != "")).all():
        cause = cause_of(UNSPLITTABLE, Stage.SPLIT, row.op_name, row.dtype)
        parts.setdefault(row.cause, set()).add(cause)
        connection.execute(sa.update(OPS).where(OPS.c.op_id == row.op_id).values(cause=cause))
    _pass_on(connection, parts)


def _pass_on(connection: sa.Connection, parts: dict[str, set[str]]) -> None:
    """Gives the note of each cause to its `parts`, and removes it where nothing has the old cause any more."""
    notes = {row["cause"]: dict(row) for row in connection.execute(sa.select(NOTES)).mappings()}
    for old, note in notes.items():
        new = parts.get(old, {old})
        heirs = [{**note, "cause": cause} for cause in sorted(new - notes.keys())]
        if heirs:
            connection.execute(sa.insert(NOTES), heirs)
        if old not in set().union(*parts.values(), {old} - parts.keys()):
            connection.execute(sa.delete(NOTES).where(NOTES.c.cause == old))
