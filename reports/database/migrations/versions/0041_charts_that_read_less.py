"""Charts of a large night read less: two nights are compared in an index, and tonight's ops have what a model of their
cycles may be wrong by."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.add_column("night_newest_ops", sa.Column("cycles_error", sa.Double(), nullable=True))
    op.execute(
        "UPDATE night_newest_ops SET cycles_error = (SELECT MAX(t.cycles_error) FROM op_tests t "
        "WHERE t.night_id = night_newest_ops.night_id AND t.series = night_newest_ops.series "
        "AND t.op_id = night_newest_ops.op_id AND t.superseded_by = '')"
    )
    op.create_index(
        "ix_night_models_module_id_night_id_series", "night_models", ["module_id", "night_id", "series"], unique=False
    )
    op.drop_index("ix_op_tests_night_id_series_op_id", table_name="op_tests")
    op.create_index(
        "ix_op_tests_labels",
        "op_tests",
        [
            *("night_id", "series", "op_id", "superseded_by", "status", "failed_stage", "error_signature"),
            *("crash_kind", "pcc", "largest_ulp", "cycles", "cycles_error"),
        ],
        unique=False,
    )
