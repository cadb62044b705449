"""Hypothesis: what made the numbers wrong, in one sentence."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("hypothesis", sa.Text(), server_default="", nullable=False))
