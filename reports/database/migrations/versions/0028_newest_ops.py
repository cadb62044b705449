"""The date of each night, and the ops of the newest night of each series, which are stored from here on."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

TEXT, COUNT, REAL, FLAG, TIME = sa.Text(), sa.BigInteger(), sa.Double(), sa.Boolean(), sa.DateTime(timezone=True)
MIDNIGHT = {
    "sqlite": "SUBSTR(n.label, 1, 10) || ' 00:00:00.000000'",
    "postgresql": "CAST(SUBSTR(n.label, 1, 10) || ' 00:00:00+00' AS TIMESTAMP WITH TIME ZONE)",
}
ENDING = (
    "CASE WHEN t.status = 'stopped' AND (t.stage_reached <> 'run' OR t.ran_on <> 'none') THEN 'passed' "
    "ELSE t.status END"
)


def upgrade() -> None:
    op.add_column("night_series", sa.Column("date", TIME, nullable=False, server_default="1970-01-01 00:00:00+00"))
    midnight = MIDNIGHT[op.get_bind().dialect.name]
    op.execute(
        f"UPDATE night_series SET date = (SELECT {midnight} FROM nights n WHERE n.night_id = night_series.night_id)"
    )
    op.create_index("ix_night_series_series_date_started", "night_series", ["series", "date", "started"])
    op.create_table(
        "night_newest_ops",
        *_of(TEXT, "night_id series model op_id op_kind op_name signature dtype"),
        *_of(COUNT, "rank uses"),
        *_of(TEXT, "status stage_reached"),
        *_of(TEXT, "failed_stage cluster error_message", null=True),
        *_of(TEXT, "expected ran_on"),
        *_of(REAL, "z_max pcc", null=True),
        *_of(COUNT, "cycles l1_peak_bytes dram_peak_bytes", null=True),
        *_of(TEXT, "limiter", null=True),
        *_of(REAL, "utilisation", null=True),
        *_of(COUNT, "dram_bytes noc_bytes", null=True),
        *_of(REAL, "compile_seconds seconds", null=True),
        *_of(FLAG, "flaky"),
        *_of(TEXT, "run_id"),
        *_of(TEXT, "artifact repro", null=True),
        sa.PrimaryKeyConstraint("night_id", "series", "model", "op_id", name="pk_night_newest_ops"),
        sa.ForeignKeyConstraint(
            ["night_id"], ["nights.night_id"], name="fk_night_newest_ops_nights", ondelete="CASCADE"
        ),
    )
    op.execute(f"""
        INSERT INTO night_newest_ops
        SELECT m.night_id, m.series, m.model, COALESCE(a.new_id, u.op_id), COALESCE(NULLIF(o.op_kind, ''), 'other'),
               o.op_name, o.signature, o.dtype, o.rank, u.uses,
               COALESCE({ENDING}, CASE WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END),
               COALESCE(t.stage_reached, 'split'),
               CASE WHEN t.op_id IS NOT NULL THEN t.failed_stage WHEN o.unsplittable <> '' THEN 'split' END,
               CASE WHEN t.op_id IS NOT NULL THEN t.cause WHEN o.unsplittable <> '' THEN o.cause END,
               CASE WHEN t.op_id IS NOT NULL THEN t.error_message WHEN o.unsplittable <> '' THEN o.unsplittable END,
               COALESCE(t.expected, ''), COALESCE(t.ran_on, 'none'), t.z_max, t.pcc, t.cycles, t.l1_peak_bytes,
               t.dram_peak_bytes, t.limiter, t.utilisation, t.dram_bytes, t.noc_bytes, t.compile_seconds, t.seconds,
               COALESCE(t.flaky, FALSE), COALESCE(t.run_id, m.run_id), t.artifact, t.repro
        FROM night_series s
        JOIN night_models m ON m.night_id = s.night_id AND m.series = s.series
        JOIN module_ops u ON u.module_id = m.module_id
        JOIN ops o ON o.op_id = u.op_id
        LEFT JOIN op_alias a ON a.old_id = u.op_id
        LEFT JOIN op_tests t
          ON t.night_id = m.night_id AND t.series = m.series AND t.op_id = u.op_id AND t.superseded_by = ''
        WHERE s.started = (SELECT MAX(started) FROM night_series l WHERE l.series = s.series) AND m.outcome = 'ran'
        ON CONFLICT DO NOTHING""")


def _of(kind: Any, names: str, *, null: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=null, autoincrement=False) for name in names.split()]
