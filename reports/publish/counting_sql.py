"""What one statement counts of a night: which rows of it count, and its coverage by op family."""

from __future__ import annotations

import sqlalchemy as sa

from opscope.base.statuses import NOT_ATTEMPTED, RIGHT
from opscope.reports.database.endings import ending_of

UNATTEMPTED, _RIGHT = (", ".join(f"'{ending}'" for ending in sorted(of)) for of in (NOT_ATTEMPTED, RIGHT))

SUPERSEDE = sa.text(f"""
WITH ranked AS (
    SELECT t.run_id, t.op_id, t.backend, t.attempt,
           FIRST_VALUE(t.run_id) OVER newest AS winner, ROW_NUMBER() OVER newest AS place
    FROM op_tests t
    JOIN runs r ON r.run_id = t.run_id
    WHERE t.night_id = :night AND t.superseded_by <> t.run_id
    WINDOW newest AS (
        PARTITION BY t.series, t.op_id
        ORDER BY CASE WHEN {ending_of("t")} IN ({UNATTEMPTED}) THEN 1 ELSE 0 END, r.started DESC, t.run_id DESC
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
       SUM(CASE WHEN c.status NOT IN ({UNATTEMPTED}) THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status IN ({_RIGHT}) AND (c.ran_on <> 'host' OR l.place = 'host') THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status IN ({_RIGHT}) AND c.ran_on = 'host' AND l.place = 'device' THEN c.ops ELSE 0 END),
       SUM(CASE WHEN c.status NOT IN ({_RIGHT}, {UNATTEMPTED}) THEN c.ops ELSE 0 END),
       SUM(c.uses),
       SUM(CASE WHEN c.status NOT IN ({UNATTEMPTED}) THEN c.uses ELSE 0 END),
       SUM(CASE WHEN c.status IN ({_RIGHT}) AND (c.ran_on <> 'host' OR l.place = 'host') THEN c.uses ELSE 0 END)
FROM night_counts c
CROSS JOIN (SELECT CASE WHEN EXISTS (SELECT 1 FROM night_counts WHERE night_id = :night AND series = :series
                                     AND model = '' AND ran_on IN ('simulator', 'silicon', 'mixed'))
                        THEN 'device' ELSE 'host' END AS place) l
WHERE c.night_id = :night AND c.series = :series AND c.model <> ''
GROUP BY c.night_id, c.series, c.model, c.op_kind""")
"""Coverage of the night `night` in `series`, from its `night_counts`; its place is that of views/night_places.sql."""
