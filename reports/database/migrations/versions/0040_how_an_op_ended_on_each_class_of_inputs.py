"""How an op ended on each class of inputs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("input_class", sa.Text(), server_default="", nullable=False))
    op.add_column("op_tests", sa.Column("input_classes", sa.JSON(), server_default="[]", nullable=False))
