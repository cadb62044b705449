"""What limits an op, and what it moves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("limiter", sa.Text(), nullable=True))
    op.add_column("op_tests", sa.Column("utilisation", sa.Double(), nullable=True))
    op.add_column("op_tests", sa.Column("dram_bytes", sa.BigInteger(), nullable=True))
    op.add_column("op_tests", sa.Column("noc_bytes", sa.BigInteger(), nullable=True))
