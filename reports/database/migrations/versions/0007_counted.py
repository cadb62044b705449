"""What is counted at publish, night by night."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def t(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def n(name: str, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), autoincrement=False, nullable=nullable)


def real(name: str, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def at(name: str, nullable: bool = False) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def upgrade() -> None:
    op.create_table(
        "night_series",
        t("night_id"),
        t("series"),
        t("backend"),
        t("arch"),
        t("dtype"),
        t("data_format"),
        t("math_fidelity"),
        at("started"),
        t("previous_night"),
        t("compiler"),
        t("jaxlib"),
        t("revision"),
        flag("compiler_changed"),
        flag("jaxlib_changed"),
        flag("models_changed"),
        t("status"),
        t("missing"),
        n("asked"),
        n("ran"),
        n("build_failed"),
        n("export_failed"),
        n("prepare_failed"),
        n("framework_missing"),
        n("models_missing"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_series_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", name=op.f("pk_night_series")),
    )
    op.create_index(op.f("ix_night_series_started"), "night_series", ["started"], unique=False)
    op.create_table(
        "night_models",
        t("night_id"),
        t("series"),
        t("model"),
        t("outcome"),
        t("reason"),
        t("run_id"),
        t("module_id", True),
        n("ops"),
        n("attempted_ops"),
        n("right_ops"),
        n("bad_ops"),
        n("flaky_ops"),
        n("uses"),
        n("attempted_uses"),
        n("right_uses"),
        n("bad_uses"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_models_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", "model", name=op.f("pk_night_models")),
    )
    op.create_index(op.f("ix_night_models_model_night_id"), "night_models", ["model", "night_id"], unique=False)
    op.create_table(
        "night_counts",
        t("night_id"),
        t("series"),
        t("model"),
        t("op_name"),
        t("op_kind"),
        t("status"),
        t("stage_reached"),
        t("ran_on"),
        flag("known"),
        n("ops"),
        n("uses"),
        n("flaky_ops"),
        n("cycles"),
        n("l1_peak_bytes"),
        real("compile_seconds"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_counts_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "night_id",
            "series",
            "model",
            "op_name",
            "status",
            "stage_reached",
            "ran_on",
            "known",
            name=op.f("pk_night_counts"),
        ),
    )
    op.create_index(op.f("ix_night_counts_model_night_id"), "night_counts", ["model", "night_id"], unique=False)
    op.create_table(
        "night_pairs",
        t("night_id"),
        t("series"),
        t("model"),
        t("ran_on"),
        n("both_ops"),
        n("right_before"),
        n("right_now"),
        n("both_uses"),
        n("right_uses_before"),
        n("right_uses_now"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_pairs_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", "model", "ran_on", name=op.f("pk_night_pairs")),
    )
    op.create_index(op.f("ix_night_pairs_model_night_id"), "night_pairs", ["model", "night_id"], unique=False)
    op.create_table(
        "night_changes",
        t("night_id"),
        t("series"),
        t("op_id"),
        t("label"),
        t("note"),
        t("known"),
        t("cluster"),
        t("stage"),
        t("message"),
        t("status_before"),
        t("status_now"),
        t("models"),
        n("model_count"),
        n("uses"),
        flag("flaky"),
        real("pcc_before", True),
        real("pcc_now", True),
        n("cycles_before", True),
        n("cycles_now", True),
        real("compile_ms_before", True),
        real("compile_ms_now", True),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_changes_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", "op_id", name=op.f("pk_night_changes")),
    )
    op.create_index(op.f("ix_night_changes_op_id"), "night_changes", ["op_id"], unique=False)
    op.create_table(
        "night_fixes",
        t("night_id"),
        t("series"),
        n("position"),
        t("cluster"),
        t("stage"),
        t("message"),
        t("op_names"),
        t("models"),
        n("model_count"),
        n("alone"),
        n("uses"),
        n("ops"),
        n("known"),
        t("repro"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_fixes_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", "position", name=op.f("pk_night_fixes")),
    )
    op.create_table(
        "night_curve",
        t("night_id"),
        t("series"),
        n("fixes"),
        t("cluster"),
        n("whole"),
        n("models"),
        t("unlocked"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name=op.f("fk_night_curve_nights"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", "fixes", name=op.f("pk_night_curve")),
    )
