"""What makes publishing quick: places of ops stored once, few errors in their index, what a run was published from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

HAS_ERROR = sa.text("error_signature IS NOT NULL")


def upgrade() -> None:
    op.add_column("runs", sa.Column("published", sa.JSON(none_as_null=True), nullable=True))
    op.drop_index("ix_op_tests_error_signature", "op_tests")
    op.create_index(
        "ix_op_tests_error_signature",
        "op_tests",
        ["error_signature"],
        sqlite_where=HAS_ERROR,
        postgresql_where=HAS_ERROR,
    )
    op.drop_index("ix_uses_op_id", "uses")
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("fk_uses_ops", "uses")
        return
    # SQLite takes a table's key out of its rows only when the table is made.
    op.create_table(
        "uses_by_key",
        sa.Column("module_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("op_id", "path", "location", "framework_op")),
        sa.PrimaryKeyConstraint("module_id", "position", name="pk_uses"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO uses_by_key (module_id, position, op_id, path, location, framework_op) "
        "SELECT module_id, position, op_id, path, location, framework_op FROM uses ORDER BY module_id, position"
    )
    op.drop_table("uses")
    op.rename_table("uses_by_key", "uses")
