"""An op is found by its name and id together, as the op explorer's filter has them."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("CREATE INDEX ix_ops_label ON ops ((op_name || ' ' || op_id))")
