"""The ops that a piece holds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("holds", sa.JSON(), nullable=False, server_default="[]"))
