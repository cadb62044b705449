"""the mesh of devices of a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("mesh", sa.Text(), server_default="", nullable=False))
