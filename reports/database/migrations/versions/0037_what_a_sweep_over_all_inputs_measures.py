"""What a sweep over all inputs measures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("domain_share", sa.Double(), nullable=True))
    op.add_column("op_tests", sa.Column("largest_ulp", sa.Double(), nullable=True))
    op.add_column("op_tests", sa.Column("over_ulp", sa.BigInteger(), nullable=True))
