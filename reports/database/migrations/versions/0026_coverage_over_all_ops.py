"""Coverage of a night over all ops of a model, not only over those that were attempted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

KINDS = """
INSERT INTO night_kinds
       (night_id, series, model, op_kind, ops, attempted_ops, right_ops, host_ops, bad_ops, uses, attempted_uses,
        right_uses)
SELECT c.night_id, c.series, c.model, c.op_kind, SUM(c.ops),
       SUM(CASE WHEN c.status NOT IN ('golden_in_doubt', 'not_run', 'skipped', 'stopped') THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status = 'success' AND (c.ran_on <> 'host' OR l.night_id IS NULL) THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status = 'success' AND c.ran_on = 'host' AND l.night_id IS NOT NULL THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status NOT IN ('success', 'golden_in_doubt', 'not_run', 'skipped', 'stopped')
                THEN c.ops ELSE 0 END),
       SUM(c.uses),
       SUM(CASE WHEN c.status NOT IN ('golden_in_doubt', 'not_run', 'skipped', 'stopped') THEN c.uses ELSE 0 END),
       SUM(CASE WHEN c.status = 'success' AND (c.ran_on <> 'host' OR l.night_id IS NULL) THEN c.uses ELSE 0 END)
FROM night_counts c
LEFT JOIN (SELECT DISTINCT night_id, series FROM night_counts
           WHERE model = '' AND ran_on IN ('simulator', 'silicon', 'mixed')) l
  ON l.night_id = c.night_id AND l.series = c.series
WHERE c.model <> ''
GROUP BY c.night_id, c.series, c.model, c.op_kind"""


def upgrade() -> None:
    for name in ("ops", "uses"):
        op.add_column("night_kinds", sa.Column(name, sa.BigInteger(), server_default="0", nullable=False))
    op.execute("DELETE FROM night_kinds")
    op.execute(KINDS)
