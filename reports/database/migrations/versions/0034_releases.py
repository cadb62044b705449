"""Nights of releases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    op.add_column("nights", sa.Column("axis", sa.Text(), server_default="time", nullable=False))
    op.add_column("nights", sa.Column("release", sa.Text(), server_default="", nullable=False))
