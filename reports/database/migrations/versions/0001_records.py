"""Runs, modules, ops, uses, op tests and results, as the records of schema version 1 have them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "ops",
        sa.Column("op_id", sa.Text(), nullable=False),
        sa.Column("op_name", sa.Text(), nullable=False),
        sa.Column("op_kind", sa.Text(), nullable=False),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.Column("outputs", sa.JSON(), nullable=False),
        sa.Column("op_params", sa.JSON(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("unsplittable", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("op_id", name=op.f("pk_ops")),
    )
    op.create_index(op.f("ix_ops_op_name"), "ops", ["op_name"], unique=False)
    op.create_table(
        "runs",
        sa.Column("schema_version", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("models", sa.JSON(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("dirty", sa.Boolean(), nullable=False),
        sa.Column("branch", sa.Text(), nullable=False),
        sa.Column("backend_revision", sa.Text(), nullable=False),
        sa.Column("backend_dirty", sa.Boolean(), nullable=False),
        sa.Column("ci_job", sa.Text(), nullable=False),
        sa.Column("ci_url", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("cpu", sa.Text(), nullable=False),
        sa.Column("python", sa.Text(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("command_line", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
    )
    op.create_table(
        "modules",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("module_ops", sa.BigInteger(), nullable=False),
        sa.Column("structural", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_modules_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "model", name=op.f("pk_modules")),
    )
    op.create_table(
        "op_tests",
        sa.Column("schema_version", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("op_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("test_case_name", sa.Text(), nullable=False),
        sa.Column("full_test_name", sa.Text(), nullable=False),
        sa.Column("filepath", sa.Text(), nullable=False),
        sa.Column("test_start_ts", sa.DateTime(timezone=True), nullable=False),
        sa.Column("test_end_ts", sa.DateTime(timezone=True), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("skipped", sa.Boolean(), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("frontend", sa.Text(), nullable=False),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("op_kind", sa.Text(), nullable=False),
        sa.Column("op_name", sa.Text(), nullable=False),
        sa.Column("framework_op_name", sa.Text(), nullable=False),
        sa.Column("inputs", sa.JSON(), nullable=False),
        sa.Column("outputs", sa.JSON(), nullable=False),
        sa.Column("op_params", sa.JSON(), nullable=False),
        sa.Column("github_job_id", sa.BigInteger(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("card_type", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("stage_reached", sa.Text(), nullable=False),
        sa.Column("failed_stage", sa.Text(), nullable=True),
        sa.Column("stages", sa.JSON(), nullable=False),
        sa.Column("error_signature", sa.Text(), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("crash_kind", sa.Text(), nullable=True),
        sa.Column("pcc", sa.Double(), nullable=True),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("locations", sa.JSON(), nullable=False),
        sa.Column("models", sa.JSON(), nullable=False),
        sa.Column("provenance", sa.Text(), nullable=False),
        sa.Column("ran_on", sa.Text(), nullable=False),
        sa.Column("expected", sa.Text(), nullable=False),
        sa.Column("flaky", sa.Boolean(), nullable=False),
        sa.Column("cycles", sa.BigInteger(), nullable=True),
        sa.Column("device_ns", sa.Double(), nullable=True),
        sa.Column("l1_peak_bytes", sa.BigInteger(), nullable=True),
        sa.Column("dram_peak_bytes", sa.BigInteger(), nullable=True),
        sa.Column("arch", sa.Text(), nullable=False),
        sa.Column("data_format", sa.Text(), nullable=False),
        sa.Column("math_fidelity", sa.Text(), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("repro", sa.Text(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("is_failure", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"], name=op.f("fk_op_tests_ops")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_op_tests_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "op_id", "backend", name=op.f("pk_op_tests")),
    )
    op.create_index(op.f("ix_op_tests_error_signature"), "op_tests", ["error_signature"], unique=False)
    op.create_index(op.f("ix_op_tests_op_id"), "op_tests", ["op_id"], unique=False)
    op.create_index(op.f("ix_op_tests_status"), "op_tests", ["status"], unique=False)
    op.create_table(
        "uses",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("op_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("framework_op", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["op_id"], ["ops.op_id"], name=op.f("fk_uses_ops")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_uses_runs"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "op_id", "model", "path", name=op.f("pk_uses")),
    )
    op.create_index(op.f("ix_uses_op_id"), "uses", ["op_id"], unique=False)
    op.create_table(
        "results",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("op_id", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("pcc", sa.Double(), nullable=True),
        sa.Column("relative_l2", sa.Double(), nullable=True),
        sa.Column("max_abs", sa.Double(), nullable=True),
        sa.Column("tolerance", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "op_id", "backend"],
            ["op_tests.run_id", "op_tests.op_id", "op_tests.backend"],
            name=op.f("fk_results_op_tests"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", "op_id", "backend", "position", name=op.f("pk_results")),
    )


def downgrade() -> None:
    op.drop_table("results")
    op.drop_index(op.f("ix_uses_op_id"), table_name="uses")
    op.drop_table("uses")
    op.drop_index(op.f("ix_op_tests_status"), table_name="op_tests")
    op.drop_index(op.f("ix_op_tests_op_id"), table_name="op_tests")
    op.drop_index(op.f("ix_op_tests_error_signature"), table_name="op_tests")
    op.drop_table("op_tests")
    op.drop_table("modules")
    op.drop_table("runs")
    op.drop_index(op.f("ix_ops_op_name"), table_name="ops")
    op.drop_table("ops")
