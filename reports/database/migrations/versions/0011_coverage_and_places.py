"""Coverage of each night by kind of op, and the models of each change, counted once: views of a year read these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

KINDS = """
INSERT INTO night_kinds
       (night_id, series, model, op_kind, attempted_ops, right_ops, host_ops, bad_ops, attempted_uses, right_uses)
SELECT c.night_id, c.series, c.model, c.op_kind, SUM(c.ops),
       SUM(CASE WHEN c.status = 'success' AND (c.ran_on <> 'host' OR l.night_id IS NULL) THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status = 'success' AND c.ran_on = 'host' AND l.night_id IS NOT NULL THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status <> 'success' THEN c.ops ELSE 0 END),
       SUM(c.uses),
       SUM(CASE WHEN c.status = 'success' AND (c.ran_on <> 'host' OR l.night_id IS NULL) THEN c.uses ELSE 0 END)
FROM night_counts c
LEFT JOIN (SELECT DISTINCT night_id, series FROM night_counts
           WHERE model = '' AND ran_on IN ('simulator', 'silicon', 'mixed')) l
  ON l.night_id = c.night_id AND l.series = c.series
WHERE c.model <> '' AND c.status NOT IN ('stopped', 'skipped', 'not_run')
GROUP BY c.night_id, c.series, c.model, c.op_kind"""

PLACES = """
INSERT INTO night_change_models (night_id, series, op_id, model, uses)
SELECT d.night_id, d.series, d.op_id, m.model, SUM(u.uses)
FROM night_changes d
JOIN (SELECT op_id AS old_id, op_id AS new_id FROM ops UNION ALL SELECT old_id, new_id FROM op_alias) a
  ON a.new_id = d.op_id
JOIN module_ops u ON u.op_id = a.old_id
JOIN night_models m
  ON m.module_id = u.module_id AND m.night_id = d.night_id AND m.series = d.series AND m.outcome = 'ran'
GROUP BY d.night_id, d.series, d.op_id, m.model"""


def _of_night(name: str, keys: tuple[str, ...], counts: tuple[str, ...]) -> None:
    op.create_table(
        name,
        *(sa.Column(key, sa.Text(), nullable=False) for key in ("night_id", "series", *keys)),
        *(sa.Column(one, sa.BigInteger(), autoincrement=False, nullable=False) for one in counts),
        sa.ForeignKeyConstraint(["night_id"], ["nights.night_id"], name=op.f(f"fk_{name}_nights"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("night_id", "series", *keys, name=op.f(f"pk_{name}")),
    )


def upgrade() -> None:
    counts = ("attempted_ops", "right_ops", "host_ops", "bad_ops", "attempted_uses", "right_uses")
    _of_night("night_kinds", ("model", "op_kind"), counts)
    _of_night("night_change_models", ("op_id", "model"), ("uses",))
    op.execute(KINDS)
    op.execute(PLACES)
