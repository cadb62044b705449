"""Sizes that open dimensions of a model were given."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("shape", sa.Text(), server_default="", nullable=False))
