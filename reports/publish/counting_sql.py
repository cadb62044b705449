"""What one statement counts of a night: which rows of it count, its coverage by op family, the rows of its ops."""

from __future__ import annotations

import sqlalchemy as sa

from opscope.base.statuses import FAILED, NOT_ATTEMPTED, RIGHT
from opscope.reports.database.endings import in_list

UNATTEMPTED, _RIGHT, _FAILED = map(in_list, (NOT_ATTEMPTED, RIGHT, FAILED))

SUPERSEDE = sa.text(f"""
WITH ranked AS (
    SELECT t.run_id, t.op_id, t.backend, t.attempt,
           FIRST_VALUE(t.run_id) OVER newest AS winner, ROW_NUMBER() OVER newest AS place
    FROM op_tests t
    JOIN runs r ON r.run_id = t.run_id
    WHERE t.night_id = :night AND t.superseded_by <> t.run_id
    WINDOW newest AS (
        PARTITION BY t.series, t.op_id
        ORDER BY CASE WHEN t.status IN {UNATTEMPTED} THEN 1 ELSE 0 END, r.started DESC, t.run_id DESC
    )
)
UPDATE op_tests SET superseded_by = CASE WHEN ranked.place = 1 THEN '' ELSE ranked.winner END
FROM ranked
WHERE op_tests.run_id = ranked.run_id AND op_tests.op_id = ranked.op_id AND op_tests.backend = ranked.backend
  AND op_tests.attempt = ranked.attempt
  AND op_tests.superseded_by <> CASE WHEN ranked.place = 1 THEN '' ELSE ranked.winner END""")
"""Of several rows of an op in a night the newest counts, one that was attempted before one that was not.

`night` is its parameter."""

COVERAGE = sa.text(f"""
INSERT INTO night_kinds
       (night_id, series, model, op_kind, ops, attempted_ops, right_ops, host_ops, bad_ops, uses, attempted_uses,
        right_uses)
SELECT c.night_id, c.series, c.model, c.op_kind, SUM(c.ops),
       SUM(CASE WHEN c.status NOT IN {UNATTEMPTED} THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status IN {_RIGHT} AND (c.ran_on NOT IN ('host', 'none') OR l.place = 'host')
                THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status IN {_RIGHT} AND c.ran_on = 'host' AND l.place = 'device' THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status IN {_FAILED} THEN c.ops ELSE 0 END),
       SUM(c.uses),
       SUM(CASE WHEN c.status NOT IN {UNATTEMPTED} THEN c.uses ELSE 0 END),
       SUM(CASE WHEN c.status IN {_RIGHT} AND (c.ran_on NOT IN ('host', 'none') OR l.place = 'host')
                THEN c.uses ELSE 0 END)
FROM night_counts c
CROSS JOIN (SELECT CASE WHEN EXISTS (SELECT 1 FROM night_counts WHERE night_id = :night AND series = :series
                                     AND model = '' AND ran_on IN ('simulator', 'silicon', 'mixed'))
                        THEN 'device' ELSE 'host' END AS place) l
WHERE c.night_id = :night AND c.series = :series AND c.model <> ''
GROUP BY c.night_id, c.series, c.model, c.op_kind""")
"""Coverage of the night `night` in `series`, from its `night_counts`; its place is that of views/night_places.sql."""

_NEWEST = """(SELECT y.night_id FROM night_series y JOIN nights n ON n.night_id = y.night_id
 WHERE y.series = :series AND y.night_id NOT IN (SELECT night_id FROM nights_ahead)
 ORDER BY CASE n.kind WHEN 'night' THEN 0 ELSE 1 END, y.started DESC, y.night_id DESC LIMIT 1)"""
"""The newest night of `series`, as views/night_dates.sql has it: a run counts where there is no night."""

FORGET_OPS = sa.text(f"DELETE FROM night_newest_ops WHERE series = :series AND night_id <> {_NEWEST}")
"""Removes the stored ops of all nights of `series` but the newest."""

NEWEST_OPS = sa.text(f"""
INSERT INTO night_newest_ops
       (night_id, series, model, op_id, op_kind, op_name, signature, dtype, rank, uses, status, stage_reached,
        failed_stage, cluster, error_message, expected, ran_on, z_max, pcc, cycles, cycles_error, l1_peak_bytes,
        dram_peak_bytes, limiter, utilisation, dram_bytes, noc_bytes, compile_seconds, seconds, flaky, run_id, artifact,
        repro)
SELECT m.night_id, m.series, m.model, COALESCE(a.new_id, u.op_id), COALESCE(NULLIF(o.op_kind, ''), 'other'), o.op_name,
       o.signature, o.dtype, o.rank, u.uses,
       COALESCE(t.status, CASE WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END),
       COALESCE(t.stage_reached, 'split'),
       CASE WHEN t.op_id IS NOT NULL THEN t.failed_stage WHEN o.unsplittable <> '' THEN 'split' END,
       CASE WHEN t.op_id IS NOT NULL THEN t.cause WHEN o.unsplittable <> '' THEN o.cause END,
       CASE WHEN t.op_id IS NOT NULL THEN t.error_message WHEN o.unsplittable <> '' THEN o.unsplittable END,
       COALESCE(t.expected, ''), COALESCE(t.ran_on, 'none'), t.z_max, t.pcc, t.cycles,
       t.cycles_error, t.l1_peak_bytes, t.dram_peak_bytes, t.limiter, t.utilisation, t.dram_bytes, t.noc_bytes,
       t.compile_seconds, t.seconds,
       COALESCE(t.flaky, FALSE), COALESCE(t.run_id, m.run_id), t.artifact, t.repro
FROM night_models m
JOIN module_ops u ON u.module_id = m.module_id
JOIN ops o ON o.op_id = u.op_id
LEFT JOIN op_alias a ON a.old_id = u.op_id
LEFT JOIN op_tests t
  ON t.night_id = m.night_id AND t.series = m.series AND t.op_id = u.op_id AND t.superseded_by = ''
WHERE m.series = :series AND m.night_id = {_NEWEST} AND m.outcome = 'ran'
ON CONFLICT DO NOTHING""")
"""Stores the ops of the newest night of `series`; an op that was renamed has its new id."""
