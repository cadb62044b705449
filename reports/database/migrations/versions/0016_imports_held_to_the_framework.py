"""Imports held to the framework."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("models", sa.Column("import_status", sa.Text(), server_default="", nullable=False))
    op.add_column("models", sa.Column("import_text", sa.Text(), server_default="", nullable=False))
    op.add_column("models", sa.Column("import_expected", sa.Text(), server_default="", nullable=False))
