"""How deep TT-Buda calls the stage that an op reached, of a backend that has such depths."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    # What was published before says nothing of it.
    op.add_column("op_tests", sa.Column("compile_depth", sa.Text(), nullable=False, server_default=""))
