"""Results of benchmarks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from opscope.reports.records.columns import Utc

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "benchmarks",
        sa.Column("benchmark_id", sa.Text(), nullable=False),
        sa.Column("started", Utc(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("board", sa.Text(), nullable=False),
        sa.Column("compiler", sa.Text(), nullable=False),
        sa.Column("microbatch", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("loop_count", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("inputs", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("timing_only", sa.Boolean(), nullable=False),
        sa.Column("epochs", sa.BigInteger(), nullable=True),
        sa.Column("simulated_cycles_per_input", sa.BigInteger(), nullable=True),
        sa.Column("push_seconds", sa.Double(), nullable=True),
        sa.Column("device_seconds", sa.Double(), nullable=True),
        sa.Column("pop_seconds", sa.Double(), nullable=True),
        sa.Column("total_seconds", sa.Double(), nullable=True),
        sa.Column("inputs_per_second", sa.Double(), nullable=True),
        sa.Column("simulated_seconds_per_input", sa.Double(), nullable=True),
        sa.Column("simulated_inputs_per_second", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("benchmark_id", name=op.f("pk_benchmarks")),
    )
    op.create_index(op.f("ix_benchmarks_model_device"), "benchmarks", ["model", "device"], unique=False)
    op.create_index(op.f("ix_benchmarks_started"), "benchmarks", ["started"], unique=False)
