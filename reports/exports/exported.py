"""The run that exports write: its op tests and their models and locations, read from a run folder or the database.

What else may make a run red is a row of its own (model_verdicts.py), so that no export of a red run is green.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from opscope.harness.record.causes import UNSPLITTABLE
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import Stage, Status
from opscope.reports.compare.outcomes import Outcome, RunView, from_database, from_stored, pieces_of
from opscope.reports.compare.run_selection import Runs
from opscope.reports.database.schema import DROPPED, MODELS, OP_TESTS, OPS, USES
from opscope.reports.exports import model_verdicts
from opscope.reports.records import quick_records


@dataclass(frozen=True)
class Exported:
    """One run to export."""

    run_id: str
    started: datetime
    revision: str
    """Revision of the compiler under test."""
    host: str
    tests: tuple[OpTest, ...]
    untested: tuple[OpTest, ...]
    """Ops without a record: those that could not be split into a module, as tests that failed at the stage `split`, and
    those that the run has not reached (yet)."""
    models: tuple[OpTest, ...]
    """The verdicts of models: of their export, of their import, and as one program."""

    @property
    def everything(self) -> tuple[OpTest, ...]:
        """Every op of the run, so that the totals of an export match those of the run, and the verdicts of models."""
        return self.tests + self.untested + self.models


def read(runs: Runs, run: str | None) -> Exported:
    """Reads the run that `run` names, or the newest one. Raises InputError if there is none."""
    if run is None:
        newest = runs.newest()
        run = str(newest.folder) if newest.folder is not None else newest.run_id
    folder = runs.folder(run)
    if folder is not None:
        return _from_folder(folder)
    return _from_database(runs.database(run), run)


def _from_folder(folder: Path) -> Exported:
    run = quick_records.stored(folder)
    tested = {test.op_id for test in run.tests}
    untested = (row for row in run.rows if row.op_id not in tested)
    tensors = {row.op_id: msgspec.to_builtins({"inputs": row.inputs, "outputs": row.outputs}) for row in untested}
    view = from_stored(run, str(folder))
    return _exported(view, run.tests, tensors, model_verdicts.from_stored(view, run, folder))


def _from_database(connection: sa.Connection, run_id: str) -> Exported:
    view = from_database(connection, run_id)
    names = [name for name in OpTest.model_fields if name not in DROPPED]
    query = sa.select(*(OP_TESTS.c[name] for name in names), OPS.c.op_params)
    query = query.join(OPS, OPS.c.op_id == OP_TESTS.c.op_id)
    query = query.where(OP_TESTS.c.run_id == run_id, OP_TESTS.c.superseded_by != run_id)
    places = _places(connection, run_id)
    tests = []
    for row in connection.execute(query.order_by(OP_TESTS.c.op_id)).mappings():
        uses = places.get(row["op_id"], [])
        places_of_op = {
            "models": tuple(dict.fromkeys(model for model, _ in uses)),
            "locations": [place for _, place in uses],
        }
        tests.append(OpTest.model_validate({**row, **places_of_op}))
    tested = {test.op_id for test in tests}
    tensors = {}
    for piece in pieces_of([op_id for op_id in view.ops if op_id not in tested]):
        described = sa.select(OPS.c.op_id, OPS.c.inputs, OPS.c.outputs).where(OPS.c.op_id.in_(piece))
        tensors |= {row.op_id: {"inputs": row.inputs, "outputs": row.outputs} for row in connection.execute(described)}
    return _exported(view, tests, tensors, model_verdicts.from_database(view, connection, tested))


def _places(connection: sa.Connection, run_id: str) -> dict[str, list[tuple[str, str]]]:
    """Op -> (model, location) of each of its uses."""
    query = (
        sa.select(USES.c.op_id, MODELS.c.model, USES.c.location)
        .join(MODELS, MODELS.c.module_id == USES.c.module_id)
        .where(MODELS.c.run_id == run_id)
        .order_by(MODELS.c.position, USES.c.position)
    )
    places: dict[str, list[tuple[str, str]]] = {}
    for op_id, model, location in connection.execute(query):
        places.setdefault(op_id, []).append((model, location))
    return places


def _exported(
    view: RunView, tests: Sequence[OpTest], tensors: Mapping[str, Mapping[str, Any]], models: Iterable[OpTest]
) -> Exported:
    tested = {test.op_id for test in tests}
    untested = [_untested(view, op, tensors[op.op_id]) for op in view.ops.values() if op.op_id not in tested]
    return Exported(
        view.run_id,
        view.started,
        view.origin["backend_revision"],
        view.origin["host"],
        tuple(tests),
        tuple(untested),
        tuple(models),
    )


def _untested(view: RunView, op: Outcome, tensors: Mapping[str, Any]) -> OpTest:
    """The record of an op that has none."""
    broken = op.status == UNSPLITTABLE
    return OpTest.model_validate(
        {
            **model_verdicts.named(view, op.op_id, f"{op.op_name}[{op.op_id}]"),
            "success": False,
            "skipped": not broken,
            "error_message": op.error or "the run has not reached it",
            "model_name": next(iter(op.uses_of), ""),
            "op_kind": op.op_kind,
            "op_name": op.op_name,
            "status": Status.COMPILE_FAILED if broken else Status.NOT_RUN,
            "stage_reached": Stage.SPLIT,
            "failed_stage": Stage.SPLIT if broken else None,
            "uses": op.uses,
            "models": tuple(op.uses_of),
            **tensors,
        }
    )
