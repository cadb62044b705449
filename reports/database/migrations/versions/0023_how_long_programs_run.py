"""How long programs run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("run_ns", sa.Double(), nullable=True))
    op.add_column("op_tests", sa.Column("run_spread_ns", sa.Double(), nullable=True))
