"""Stored records of a run -> rows of the results database: idempotent, one transaction, a function of records alone.

Publishing a run again replaces its rows; what it would write never depends on the clock or on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from harness.errors import InputError
from harness.records import OpRow, OpTest, TensorDesc
from harness.store import StoredRun, load_run
from reports.columns import plain
from reports.database import open_database
from reports.schema import METADATA, MODULES, OP_TESTS, OPS, RESULTS, RUNS, USES

Row = dict[str, Any]
BATCH = 200
"""Rows per statement that updates on conflict, below SQLite's limit of parameters."""


def publish(run_dir: Path, url: str, where: str = "--to") -> dict[str, int]:
    """Writes the run in `run_dir` to the database at `url`; the number of rows per table.

    Raises InputError for a folder that holds no run of a known schema and for a database that cannot be written;
    then nothing of the run is in the database that was not before.
    """
    run = load_run(run_dir)
    rows = run_rows(run)
    with open_database(url, where) as connection:
        write(connection, run, rows, where)
    return {table: len(many) for table, many in rows.items()}


def write(connection: sa.Connection, run: StoredRun, rows: dict[str, list[Row]], where: str = "--to") -> None:
    """Replaces the rows of `run`. Raises InputError if another run of the same name is there."""
    run_id = run.record.run_id
    there = connection.execute(sa.select(RUNS.c.started, RUNS.c.host).where(RUNS.c.run_id == run_id)).one_or_none()
    if there is not None and tuple(there) != (run.record.started, plain(run.record.origin.host)):
        got = f"the same id in a run started {there.started:%Y-%m-%d %H:%M:%S} on `{there.host}`"
        raise InputError(where, f"run `{run_id}` or nothing by its name", got, "another --run-dir for one of them")
    connection.execute(sa.delete(RUNS).where(RUNS.c.run_id == run_id))  # its other rows go with it
    _upsert_ops(connection, rows["ops"])
    for table in METADATA.sorted_tables:
        many = rows[table.name]
        if table is not OPS and many:
            connection.execute(sa.insert(table), many)


def _upsert_ops(connection: sa.Connection, rows: list[Row]) -> None:
    """Inserts ops, or updates them: an op's id stays while what is told of it may grow with the exporter."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    for start in range(0, len(rows), BATCH):
        statement = insert(OPS).values(rows[start : start + BATCH])
        told = {column.name: statement.excluded[column.name] for column in OPS.columns if not column.primary_key}
        connection.execute(statement.on_conflict_do_update(index_elements=[OPS.c.op_id], set_=told))


# --- records to rows


def run_rows(run: StoredRun) -> dict[str, list[Row]]:
    """The rows of a run, per table."""
    header, run_id = run.header, run.record.run_id
    tests = {(test.op_id, test.backend): test for test in run.tests}
    kinds = {test.op_id: test.op_kind for test in run.tests}
    uses = {
        (row.op_id, use.model, use.path): {"run_id": run_id, "op_id": row.op_id, **plain(use)}
        for row in run.rows
        for use in row.uses
    }
    record = plain(run.record)
    origin = record.pop("origin")
    described = {row.op_id: _op(row, kinds.get(row.op_id, "")) for row in run.rows}
    for test in run.tests:
        described.setdefault(test.op_id, _op(test, test.op_kind))
    return {
        RUNS.name: [record | origin],
        MODULES.name: [
            {"run_id": run_id, "model": model, "module_ops": total, "structural": header.structural.get(model, 0)}
            for model, total in header.module_ops.items()
        ],
        OPS.name: list(described.values()),
        USES.name: list(uses.values()),
        OP_TESTS.name: [_op_test(test, run_id) for test in tests.values()],
        RESULTS.name: [
            {"run_id": run_id, "op_id": test.op_id, "backend": test.backend, "position": position, **plain(check)}
            for test in tests.values()
            for position, check in enumerate(test.results)
        ],
    }


def _op(row: OpRow | OpTest, kind: str) -> Row:
    return plain(
        {
            "op_id": row.op_id,
            "op_name": row.op_name,
            "op_kind": kind,
            "inputs": row.inputs,
            "outputs": row.outputs,
            "op_params": row.op_params,
            "signature": signature(row.inputs, row.outputs),
            "unsplittable": row.unsplittable if isinstance(row, OpRow) else "",
        }
    )


def _op_test(test: OpTest, run_id: str) -> Row:
    row = plain(test)
    del row["results"]
    seconds = sum(stage.seconds for stage in test.stages)
    return row | {"run_id": run_id, "seconds": seconds, "is_failure": is_failure(test)}


def is_failure(test: OpTest) -> bool:
    """Whether an op fails its run: it went wrong and no limitation names that failure, or one does and it passed."""
    return test.fails_run


def signature(inputs: Iterable[TensorDesc], outputs: Iterable[TensorDesc]) -> str:
    """An op's types in one line: `f32[1,64] * f32[64,10] -> f32[1,10]`; a scalar is `f32[]`."""
    sides = (
        " * ".join(f"{tensor.data_type}[{','.join(map(str, tensor.shape))}]" for tensor in tensors)
        for tensors in (inputs, outputs)
    )
    return " -> ".join(sides)
