"""The dead ops of a model."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    op.add_column("models", sa.Column("dead", sa.BigInteger(), nullable=False, server_default="0"))
