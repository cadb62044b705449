"""Notes about causes of failure."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.create_table(
        "notes",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("cause", "text", "author", "written", "until")),
        sa.PrimaryKeyConstraint("cause", name="pk_notes"),
    )
