"""An op that came through the last stage asked for has passed: `success` and the status of its record say so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    names = ("status", "success", "stage_reached", "ran_on")
    tests = sa.table("op_tests", *(sa.column(name) for name in names))
    stopped_early = (tests.c.status == "stopped") & ((tests.c.stage_reached != "run") | (tests.c.ran_on != "none"))
    op.execute(tests.update().where(stopped_early).values(status="passed", success=sa.true()))
