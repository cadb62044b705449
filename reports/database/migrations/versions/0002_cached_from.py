"""Where a verdict was found: the run that an op test was taken from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # What was published before was found by its own run.
    op.add_column("op_tests", sa.Column("cached_from", sa.Text(), nullable=False, server_default=""))
