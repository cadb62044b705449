"""what links move."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("link_bytes", sa.BigInteger(), nullable=True))
    op.add_column("op_tests", sa.Column("link_ns", sa.Double(), nullable=True))
