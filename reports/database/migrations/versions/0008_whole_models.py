"""Models as one program, with where their error jumps; and the workflow that an op's record is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def t(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def n(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=True)


def real(name: str, nullable: bool = True) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def upgrade() -> None:
    # Whatever was published before ran each op by itself.
    op.add_column("op_tests", sa.Column("workflow", sa.Text(), nullable=False, server_default="split"))
    op.add_column("op_tests", n("intermediates"))
    op.create_table(
        "whole_models",
        t("run_id"),
        t("model"),
        t("backend"),
        t("night_id"),
        t("series"),
        t("op_id"),
        t("status"),
        t("stage_reached"),
        t("failed_stage", nullable=True),
        t("error_message", nullable=True),
        t("error_signature", nullable=True),
        t("expected"),
        real("pcc"),
        real("relative_l2"),
        t("ran_on"),
        n("cycles"),
        real("seconds", nullable=False),
        real("compile_seconds", nullable=False),
        n("intermediates"),
        t("jump_path", nullable=True),
        t("jump_op_id", nullable=True),
        t("jump_op_name", nullable=True),
        t("jump_location", nullable=True),
        real("jump_pcc_before"),
        real("jump_pcc"),
        real("jump_error_before"),
        real("jump_error"),
        sa.Column("jump_confirmed", sa.Boolean(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "model", "backend", name="pk_whole_models"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_whole_models_run_id_runs", ondelete="CASCADE"),
    )
