"""The ladder of each series of a night: the stages that its ops climbed, in their order; operands with commas."""

from __future__ import annotations

import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

from opscope.harness.record.stages import depths

revision = "0033"
down_revision = "0032"

CLIMBS = """
    SELECT t.night_id, t.series, t.stage_reached, CAST(t.stages AS TEXT) FROM op_tests t
    JOIN (SELECT night_id, series, stage_reached, MIN(op_id) AS op_id FROM op_tests
          WHERE superseded_by = '' GROUP BY night_id, series, stage_reached) f
      ON f.night_id = t.night_id AND f.series = t.series AND f.stage_reached = t.stage_reached AND f.op_id = t.op_id
    JOIN night_series s ON s.night_id = t.night_id AND s.series = t.series
    WHERE t.superseded_by = ''"""
"""What one op for each stage that ops reached climbed."""


def upgrade() -> None:
    table = op.create_table(
        "night_stages",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("night_id", "series", "stage")),
        sa.Column("depth", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("night_id", "series", "stage", name="pk_night_stages"),
        sa.ForeignKeyConstraint(["night_id"], ["nights.night_id"], name="fk_night_stages_nights", ondelete="CASCADE"),
    )
    for of_types in ("ops", "night_newest_ops"):  # a comma between operands, as MLIR has it
        op.execute(f"UPDATE {of_types} SET signature = REPLACE(signature, ' * ', ', ') WHERE signature LIKE '% * %'")
    reached = defaultdict(set)
    climbs = defaultdict(set)
    for night, series, stage, stages in op.get_bind().execute(sa.text(CLIMBS)):
        reached[night, series].add(stage)
        climbs[night, series].add(tuple(time["stage"] for time in json.loads(stages or "[]") or ()))
    rows = [
        {"night_id": night, "series": series, "stage": stage, "depth": depth}
        for (night, series), stages in sorted(reached.items())
        for stage, depth in depths(stages, climbs[night, series]).items()
    ]
    if rows:
        op.bulk_insert(table, rows)
