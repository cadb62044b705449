"""What became of a failure that was run again: its label, and how each run ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    # What was published before was never run again.
    op.add_column("op_tests", sa.Column("stability", sa.Text(), nullable=False, server_default=""))
    op.add_column("op_tests", sa.Column("outcomes", sa.JSON(), nullable=False, server_default="[]"))
