"""Wrong results and goldens in doubt: `golden_failed` becomes `wrong_result`, and what a second authority computes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

OLD, NEW = "golden_failed", "wrong_result"
COLUMNS = (
    ("op_tests", "status"),
    ("whole_models", "status"),
    ("night_counts", "status"),
    ("night_changes", "status_before"),
    ("night_changes", "status_now"),
)
TEXTS = (("op_tests", "outcomes"), ("night_changes", "note"))
"""Columns with texts that name a status: `golden_failed at compare`."""


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("second_authority", sa.Text(), server_default="", nullable=False))
    for table, column in COLUMNS:
        op.execute(f"UPDATE {table} SET {column} = '{NEW}' WHERE {column} = '{OLD}'")
    for table, column in TEXTS:
        text = f"REPLACE(CAST({column} AS TEXT), '{OLD}', '{NEW}')"
        if column == "outcomes" and op.get_bind().dialect.name == "postgresql":  # SQLite keeps JSON as text
            text = f"CAST({text} AS JSON)"
        op.execute(f"UPDATE {table} SET {column} = {text} WHERE CAST({column} AS TEXT) LIKE '%{OLD}%'")
