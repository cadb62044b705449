"""What ops leave behind."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("left_behind", sa.JSON(), nullable=False, server_default="[]"))
