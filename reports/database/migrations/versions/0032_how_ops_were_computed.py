"""How ops were computed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("numerics", sa.Text(), server_default="hifi4", nullable=False))
    op.add_column("op_tests", sa.Column("exact_order", sa.Boolean(), server_default="0", nullable=False))
    op.add_column("op_tests", sa.Column("cycles_error", sa.Double(), nullable=True))
