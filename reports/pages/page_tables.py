"""The tables of report.html beside its causes: on what backends disagree, what fails as expected, what overwrote its
inputs, what could not be split from its model, and whole models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from opscope.base.document.nodes import Column, Op, Outcome, Table
from opscope.harness.record import isolation
from opscope.harness.record.agreement import disagreements
from opscope.harness.record.records import OpRow, OpTest
from opscope.harness.record.stages import FAILED
from opscope.harness.record.store import StoredRun, whole_models
from opscope.reports.compare.owned import Owned
from opscope.reports.database.rows import Row, signature
from opscope.reports.database.whole_models import columns_of, counting

MOST = 50
"""Rows of a table of ops; the table of all ops has the others."""
OP, USES = Column("op", "op"), Column("uses", "right")


def splits(tests: Sequence[OpTest]) -> Table:
    """The ops on which backends disagree, with each backend's result; the backend that differs comes first."""
    rows = [
        (
            _op(split.first.op_id, split.first.op_name, signature(split.first.inputs, split.first.outputs)),
            split.alone or "-",
            [
                Outcome(
                    test.status, name, f"at {test.failed_stage}: {test.error_message or ''}" * bool(test.failed_stage)
                )
                for name, test in sorted(split.tests.items(), key=lambda vote: vote[0] != split.alone)
            ],
            split.first.uses,
        )
        for split in disagreements(tests)
    ]
    return Table([OP, Column("only on"), Column("outcomes", "outcomes"), USES], rows, "Where the backends disagree")


def of_ops(rows: Iterable[Mapping[str, Any]]) -> Iterable[Table]:
    """Expected failures, and ops whose inputs the backend overwrote, of the rows of ops (page_rows.py)."""
    by_uses = sorted(rows, key=lambda row: -row["uses"])
    columns = [OP, Column("outcome", "outcomes"), Column("limitation", "lines"), Column("error", "long"), USES]
    known = [
        (*_ended(row), [row["expected"], *_owner(row["owner"])], row["error"], row["uses"])
        for row in by_uses
        if row["tone"] == "known"
    ]
    see = "the table of all ops"
    yield Table(columns, known[:MOST], "Expected failures", max(0, len(known) - MOST), see)
    columns = [OP, Column("outcome", "outcomes"), Column("inputs, counted from 0"), USES]
    wrote = [
        (*_ended(row), ", ".join(map(str, row["overwritten"])), row["uses"]) for row in by_uses if row["overwritten"]
    ]
    note = "Such an op may be right by itself; in a program the next op that reads this input would get a wrong value."
    title = "Ops whose inputs the backend overwrote"
    yield Table(columns, wrote[:MOST], title, max(0, len(wrote) - MOST), see, note)


def unsplittable(ops: Iterable[tuple[str, str, str, int]]) -> Table:
    """Ops that could not be split into a module: of each its id, name, the reason, and its uses."""
    rows = [(_op(op_id, name), why, uses) for op_id, name, why, uses in ops]
    return Table([OP, Column("why", "long"), USES], rows, "Ops that could not be split from the model")


def unsplittable_of(rows: Sequence[OpRow], owned: Owned) -> Table:
    """Those of a run."""
    lost = (row for row in rows if row.unsplittable)
    return unsplittable(
        (row.op_id, row.op_name, row.unsplittable, len(row.uses))
        for row in lost
        if owned.lists(owned.owner_of_unsplittable(row.op_name, sorted({use.model for use in row.uses})))
    )


def whole_of_run(run: StoredRun, run_dir: Path | None, owned: Owned) -> list[Table]:
    """Models as one program, and the ops whose verdict changes when they run alone."""
    if run_dir is None:
        return []
    tests = whole_models(run_dir, run.tests)
    alone = isolation.lines(isolation.of_run(run_dir, tests, run.tests))
    interactions = Table([Column("what"), Column("op", "long")], alone, "Ops whose verdict changes when they run alone")
    return [_whole([columns_of(test) for test in tests], owned), interactions]


def whole_of_night(connection: sa.Connection, night_id: str, names: Mapping[str, str], owned: Owned) -> Table:
    """Models as one program in a night, by the verdicts that count.

    `names`: series -> what a page calls it, empty where it is the only one.
    """
    rows = counting(connection, night_id, names)
    return _whole([{**row, "backend": names[row["series"]] or row["backend"]} for row in rows], owned)


def _whole(rows: Iterable[Row], owned: Owned) -> Table:
    columns = [Column("model", "lines"), Column("outcome", "outcomes"), Column("PCC", "right")]
    columns += [Column("relative L2", "right"), Column("ran on"), Column("values compared", "right")]
    columns += [Column("where the error first jumps", "long")]
    cells = []
    for row in rows:
        owner = owned.owner_of_model(row) if row["status"] in FAILED else ""
        if owned.lists(owner):
            pcc, l2, compared = (row[name] for name in ("pcc", "relative_l2", "intermediates"))
            cells.append(
                (
                    [row["model"], row["backend"]],
                    [Outcome(row["status"], text="; ".join(filter(None, (row["error_message"], *_owner(owner)))))],
                    "" if pcc is None else f"{pcc:.7f}",
                    "" if l2 is None else f"{l2:.2g}",
                    row["ran_on"],
                    "" if compared is None else f"{compared:,}",
                    _jump(row),
                )
            )
    return Table(columns, cells, "Models as one program")


def _jump(row: Row) -> str:
    if not row["jump_op_id"]:
        return ""
    where = f"{row['jump_op_name']} [{row['jump_op_id']}] {row['jump_path']} {row['jump_location']}"
    if row["jump_pcc"] is not None and row["jump_pcc_before"] is not None:
        where += f": PCC {row['jump_pcc_before']:.6f} before, {row['jump_pcc']:.6f} after"
    return where


def _op(op_id: str, name: str, types: str = "") -> Op:
    return Op(op_id, name, types, 0, "", "")


def _ended(row: Mapping[str, Any]) -> tuple[Op, list[Outcome]]:
    return _op(row["id"], row["name"], row["types"]), [Outcome(row["status"], text=row["failed"])]


def _owner(team: str) -> list[str]:
    return [f"owner {team}"] * bool(team)
