"""Models that the budget did not reach."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("night_series", sa.Column("not_run", sa.BigInteger(), nullable=False, server_default="0"))
