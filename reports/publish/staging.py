"""Merges the ops of a run into the table of all ops: new ones are added, changed ones replaced.

They go into a temporary table first, whole, so that the database finds out by itself which are which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from opscope.reports.database.schema import OPS
from opscope.reports.publish import bulk

STAGED = "staged_ops"


def write_ops(connection: sa.Connection, rows: Iterable[Sequence[Any]], clean: bool) -> int:
    """Writes ops, each with a value for every column of `ops` in its order; how many there were.

    `clean`: as `bulk.insert` says. An op that is there keeps its kind where a run that did not get to it says none.
    """
    if connection.scalar(sa.select(OPS.c.op_id).limit(1)) is None:
        return bulk.insert(connection, OPS, rows, clean=clean)
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {STAGED} AS SELECT * FROM ops WHERE 1 = 0")
    count = bulk.insert(connection, OPS, rows, into=STAGED, clean=clean)
    names = [column.name for column in OPS.columns]
    listed = ", ".join(names)
    connection.exec_driver_sql(
        f"INSERT INTO ops ({listed}) SELECT {listed} FROM {STAGED} s "
        "WHERE NOT EXISTS (SELECT 1 FROM ops o WHERE o.op_id = s.op_id) ORDER BY s.op_id"
    )
    new = {name: f"s.{name}" for name in names[1:]} | {"op_kind": "COALESCE(NULLIF(s.op_kind, ''), ops.op_kind)"}
    assignments = ", ".join(f"{name} = {value}" for name, value in new.items())
    differ = " OR ".join(f"CAST(ops.{name} AS TEXT) <> CAST({value} AS TEXT)" for name, value in new.items())
    connection.exec_driver_sql(f"UPDATE ops SET {assignments} FROM {STAGED} s WHERE ops.op_id = s.op_id AND ({differ})")
    connection.exec_driver_sql(f"DROP TABLE {STAGED}")
    return count
