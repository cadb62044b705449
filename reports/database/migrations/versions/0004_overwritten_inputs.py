"""What a backend did to the inputs of an op: the positions of those that it wrote into."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    # Nobody looked before.
    op.add_column("op_tests", sa.Column("overwritten_inputs", sa.JSON(), nullable=False, server_default="[]"))
