"""Scores: the largest error over its scale, its place, the question that failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("z_max", sa.Double(), nullable=True))
    op.add_column("op_tests", sa.Column("z_place", sa.Text(), server_default="", nullable=False))
    op.add_column("op_tests", sa.Column("question", sa.Text(), server_default="", nullable=False))
