"""The tables of the results database, made from the records of a run (database.py builds it and brings it up to date).

    runs      one run and where it came from (RunRecord with its Origin)
    modules   per run and model: how many ops its module has, and how many only hold it together
    ops       one unique op for ever: what follows from its id
    uses      per run: each place where an op stands in a model
    op_tests  per run and op: what became of it on a backend (OpTest)
    results   per op test and result: the comparison with the golden (ResultCheck)

Metrics are SQL views beside them (reports/views/), so that command line, report and dashboards agree.
"""

from __future__ import annotations

import sqlalchemy as sa

from harness.records import OpTest, Origin, ResultCheck, RunRecord, Use
from reports.columns import column, columns

# Constraint names that both databases share, for migrations to name.
METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)

RUNS = sa.Table(
    "runs",
    METADATA,
    *columns(RunRecord, keys=("run_id",), without=("origin",)),
    *columns(Origin),
)
"""One row per run; the fields of its Origin stand beside its own."""

MODULES = sa.Table(
    "modules",
    METADATA,
    sa.Column("run_id", sa.Text(), sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("model", sa.Text(), primary_key=True),
    sa.Column("module_ops", sa.BigInteger(), nullable=False),
    sa.Column("structural", sa.BigInteger(), nullable=False),
)
"""The counts of ManifestHeader, one row per model."""

OPS = sa.Table(
    "ops",
    METADATA,
    sa.Column("op_id", sa.Text(), primary_key=True),
    sa.Column("op_name", sa.Text(), nullable=False, index=True),
    sa.Column("op_kind", sa.Text(), nullable=False),
    sa.Column("inputs", sa.JSON(), nullable=False),
    sa.Column("outputs", sa.JSON(), nullable=False),
    sa.Column("op_params", sa.JSON(), nullable=False),
    sa.Column("signature", sa.Text(), nullable=False),
    sa.Column("unsplittable", sa.Text(), nullable=False),
)
"""One row per op id. `signature` is its types in one line: `f32[1,64] * f32[64,10] -> f32[1,10]`."""

USES = sa.Table(
    "uses",
    METADATA,
    sa.Column("run_id", sa.Text(), sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("op_id", sa.Text(), sa.ForeignKey("ops.op_id"), primary_key=True, index=True),
    *(column(name, field.annotation, key=name in ("model", "path")) for name, field in Use.model_fields.items()),
)
"""Where ops stand: one row per place in a model."""

OP_TESTS = sa.Table(
    "op_tests",
    METADATA,
    *columns(OpTest, keys=("run_id", "op_id", "backend"), without=("results",)),
    sa.Column("seconds", sa.Double(), nullable=False),
    sa.Column("is_failure", sa.Boolean(), nullable=False),
    sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], ondelete="CASCADE"),
    sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"]),
    sa.Index(None, "op_id"),
    sa.Index(None, "status"),
    sa.Index(None, "error_signature"),
)
"""Every field of OpTest, the sum of its stages' seconds, and whether it fails a run (no limitation names it)."""

RESULTS = sa.Table(
    "results",
    METADATA,
    sa.Column("run_id", sa.Text(), primary_key=True),
    sa.Column("op_id", sa.Text(), primary_key=True),
    sa.Column("backend", sa.Text(), primary_key=True),
    sa.Column("position", sa.BigInteger(), primary_key=True, autoincrement=False),
    *columns(ResultCheck),
    sa.ForeignKeyConstraint(
        ["run_id", "op_id", "backend"], ["op_tests.run_id", "op_tests.op_id", "op_tests.backend"], ondelete="CASCADE"
    ),
)
"""One row per result of an op, in the op's order."""
