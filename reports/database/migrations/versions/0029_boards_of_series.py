"""The board of each series of a night, which a backend for the host does not have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

OF_SERIES = "SELECT 1 FROM op_tests t WHERE t.night_id = night_series.night_id AND t.series = night_series.series"


def upgrade() -> None:
    op.add_column("night_series", sa.Column("board", sa.Text(), nullable=True))
    op.execute(f"""
        UPDATE night_series SET board = CASE
            WHEN EXISTS ({OF_SERIES} AND (t.card_type LIKE 'sim-%' OR t.card_type LIKE '%' || night_series.arch || '%'))
            THEN arch
            WHEN EXISTS ({OF_SERIES} AND t.card_type <> 'none') THEN ''
            END""")
