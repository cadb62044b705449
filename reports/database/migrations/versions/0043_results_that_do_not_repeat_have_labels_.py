"""Results that do not repeat have labels of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("canary", sa.Text(), server_default="", nullable=False))
    op.drop_index(op.f("ix_op_tests_labels"), table_name="op_tests")
    op.create_index(
        "ix_op_tests_labels",
        "op_tests",
        [
            "night_id",
            "series",
            "op_id",
            "superseded_by",
            "status",
            "failed_stage",
            "error_signature",
            "crash_kind",
            "pcc",
            "largest_ulp",
            "cycles",
            "cycles_error",
            "stability",
        ],
        unique=False,
    )
