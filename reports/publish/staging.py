"""Merges the ops of a run into the table of all ops: new ones are added, changed ones replaced.

They go into a temporary table first, whole, so that the database finds out by itself which are which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from opscope.reports.database.schema import OPS
from opscope.reports.publish import bulk

STAGED, CHANGED = "staged_ops", "changed_ops"

LATER = "(r.started > this.started OR (r.started = this.started AND r.run_id > this.run_id))"
DESCRIBED = f"""EXISTS (SELECT 1 FROM module_ops u JOIN models m ON m.module_id = u.module_id
    JOIN runs r ON r.run_id = m.run_id JOIN runs this ON this.run_id = :run WHERE u.op_id = ops.op_id AND {LATER})"""
"""Whether a later run than `run` has the op: then what is there stays."""
TESTED = f"""EXISTS (SELECT 1 FROM op_tests t JOIN runs r ON r.run_id = t.run_id
    JOIN runs this ON this.run_id = :run WHERE t.op_id = ops.op_id AND t.op_kind <> '' AND {LATER})"""
"""Whether a later run than `run` got to the op: its kind is known only then."""
NIGHTS_OF = f"""SELECT n.night_id FROM nights n WHERE n.night_id IN (
    SELECT r.night_id FROM {CHANGED} c JOIN module_ops u ON u.op_id = c.op_id
    JOIN models m ON m.module_id = u.module_id JOIN runs r ON r.run_id = m.run_id) ORDER BY n.started, n.night_id"""


def write_ops(
    connection: sa.Connection, run_id: str, rows: Iterable[Sequence[Any]], clean: bool
) -> tuple[int, list[str]]:
    """Writes the ops of a run, each with a value for every column of `ops` in its order; how many there were, and the
    nights whose ops are others now, the oldest first.

    `clean`: as `bulk.insert` says. What runs say differently of an op is as the latest says, in whatever order they are
    published; its kind is as the latest says that got to it.
    """
    if connection.scalar(sa.select(OPS.c.op_id).limit(1)) is None:
        return bulk.insert(connection, OPS, rows, clean=clean), []
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {STAGED} AS SELECT * FROM ops WHERE 1 = 0")
    count = bulk.insert(connection, OPS, rows, into=STAGED, clean=clean)
    names = [column.name for column in OPS.columns]
    listed = ", ".join(names)
    connection.exec_driver_sql(
        f"INSERT INTO ops ({listed}) SELECT {listed} FROM {STAGED} s "
        "WHERE NOT EXISTS (SELECT 1 FROM ops o WHERE o.op_id = s.op_id) ORDER BY s.op_id"
    )
    said = [name for name in names[1:] if name != "op_kind"]
    differ = " OR ".join(f"CAST(ops.{name} AS TEXT) <> CAST(s.{name} AS TEXT)" for name in said)
    newer = {
        f"({differ}) AND NOT {DESCRIBED}": said,
        f"s.op_kind <> '' AND ops.op_kind <> s.op_kind AND NOT {TESTED}": ["op_kind"],
    }
    nights: list[str] = []
    for condition, replaced in newer.items():
        changed = f"SELECT s.* FROM {STAGED} s JOIN ops ON ops.op_id = s.op_id WHERE {condition}"
        connection.execute(sa.text(f"CREATE TEMPORARY TABLE {CHANGED} AS {changed}"), {"run": run_id})
        assignments = ", ".join(f"{name} = s.{name}" for name in replaced)
        connection.exec_driver_sql(f"UPDATE ops SET {assignments} FROM {CHANGED} s WHERE ops.op_id = s.op_id")
        nights += connection.scalars(sa.text(NIGHTS_OF))
        connection.exec_driver_sql(f"DROP TABLE {CHANGED}")
    connection.exec_driver_sql(f"DROP TABLE {STAGED}")
    return count, nights
