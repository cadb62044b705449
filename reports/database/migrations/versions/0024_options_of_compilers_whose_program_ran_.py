"""Options of compilers, whose program ran, what it narrowed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("backend_option", sa.Text(), server_default="", nullable=False))
    op.add_column("op_tests", sa.Column("system_desc", sa.Text(), server_default="", nullable=False))
    op.add_column("op_tests", sa.Column("compiled_by", sa.Text(), server_default="", nullable=False))
    op.add_column("op_tests", sa.Column("narrowed", sa.JSON(), nullable=False, server_default="[]"))
