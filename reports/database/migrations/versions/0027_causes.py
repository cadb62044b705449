"""The cause of each failure and of ops that cannot be split off (harness/record/causes.py); sentences about nights.

Nights are counted anew by who opens the database to write nights (reports/publish/counting.py).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from opscope.harness.record.causes import UNSPLITTABLE, cause_of

revision = "0027"
down_revision = "0026"

HAS_CAUSE = sa.text("cause IS NOT NULL")
FACTS = "status, COALESCE(failed_stage, stage_reached), t.op_name, dtype, error_message, crash_kind, hypothesis"
FAILED = "'compile_failed', 'run_failed', 'wrong_result', 'no_golden', 'timeout', 'crashed'"


def upgrade() -> None:
    op.add_column("op_tests", sa.Column("cause", sa.Text(), nullable=True))
    op.add_column("ops", sa.Column("cause", sa.Text(), nullable=False, server_default=""))
    op.create_index("ix_op_tests_cause", "op_tests", ["cause"], sqlite_where=HAS_CAUSE, postgresql_where=HAS_CAUSE)
    op.create_index("ix_night_fixes_cluster", "night_fixes", ["cluster"])
    op.create_table(
        "night_sentences",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("night_id", "series", "verdict")),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("new_failures", "causes", "fixed_ops", "slower_ops")
        ),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("most_in", "sentence")),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name="fk_night_sentences_nights", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("night_id", "series", name="pk_night_sentences"),
    )
    connection = op.get_bind()
    failed = connection.exec_driver_sql(
        f"SELECT t.run_id, t.op_id, backend, attempt, {FACTS} FROM op_tests t JOIN ops o ON o.op_id = t.op_id "
        f"WHERE status IN ({FAILED})"
    ).all()
    key = "run_id = :run AND op_id = :op AND backend = :backend AND attempt = :attempt"
    statement = sa.text(f"UPDATE op_tests SET cause = :cause WHERE {key}")
    filled = [
        {
            "run": run,
            "op": op_id,
            "backend": backend,
            "attempt": attempt,
            "cause": cause_of(*words, error or "", crash or "", hypothesis or ""),
        }
        for run, op_id, backend, attempt, *words, error, crash, hypothesis in failed
    ]
    if filled:
        connection.execute(statement, filled)
    unsplittable = connection.exec_driver_sql("SELECT op_id, op_name FROM ops WHERE unsplittable <> ''").all()
    if unsplittable:
        connection.execute(
            sa.text("UPDATE ops SET cause = :cause WHERE op_id = :op"),
            [{"op": op_id, "cause": cause_of(UNSPLITTABLE, "split", name, "")} for op_id, name in unsplittable],
        )
