"""The cause of an op that is refused by its name has the name; until when a series is awaited; the lines of a sentence.

Nights are counted anew by who opens the database to write nights (reports/publish/counting.py).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from opscope.harness.record.causes import cause_of

revision = "0035"
down_revision = "0034"

FACTS = "status, COALESCE(failed_stage, stage_reached), t.op_name, dtype, error_message, crash_kind, hypothesis"
KEY = ("run_id", "op_id", "backend", "attempt")


def upgrade() -> None:
    op.add_column("night_series", sa.Column("due", sa.DateTime(timezone=True), nullable=True))
    for name in ("about", "chips"):
        op.add_column("night_sentences", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    connection = op.get_bind()
    failed = connection.exec_driver_sql(
        f"SELECT t.{', t.'.join(KEY)}, t.cause, {FACTS} FROM op_tests t JOIN ops o ON o.op_id = t.op_id "
        "WHERE t.cause IS NOT NULL AND t.error_message <> ''"
    ).all()
    parts: dict[str, set[str]] = {}
    changed = []
    for *key, before, status, stage, name, dtype, error, crash, hypothesis in failed:
        cause = cause_of(status, stage, name, dtype, error or "", crash or "", hypothesis or "")
        parts.setdefault(before, set()).add(cause)
        if cause != before:
            changed.append({**dict(zip(KEY, key, strict=True)), "cause": cause})
    if changed:
        where = " AND ".join(f"{name} = :{name}" for name in KEY)
        connection.execute(sa.text(f"UPDATE op_tests SET cause = :cause WHERE {where}"), changed)
    notes = connection.exec_driver_sql("SELECT cause, text, author, written, until FROM notes").all()
    for cause, *note in notes:  # what is known of a cause is known of each of its parts
        for part in sorted(parts.get(cause, set()) - {each[0] for each in notes}):
            values = dict(zip(("text", "author", "written", "until"), note, strict=True)) | {"cause": part}
            columns = ", ".join(values)
            connection.execute(
                sa.text(f"INSERT INTO notes ({columns}) VALUES ({', '.join(f':{each}' for each in values)})"), values
            )
