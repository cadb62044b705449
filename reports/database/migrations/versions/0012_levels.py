"""What the compiler was asked to do with an op: its optimization level, and its level of mixed precision."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    # What was published before this was known has the defaults.
    op.add_column("op_tests", sa.Column("optimization_level", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("op_tests", sa.Column("amp_level", sa.BigInteger(), nullable=False, server_default="0"))
