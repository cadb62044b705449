"""The statements that count a night: one night and one series each, from the rows that count in it.

Parameters are `night`, `series` and, for pairs, `previous`. In `model` an empty text stands for all models together,
each op counted once with the uses of all. An op of a module without a test was either not to be split off or is not
there (yet): then it counts as not run.
"""

from __future__ import annotations

import sqlalchemy as sa

UNATTEMPTED = "('stopped', 'skipped', 'not_run')"
BAD = "('compile_failed', 'run_failed', 'golden_failed', 'no_golden', 'timeout', 'crashed', 'unsplittable')"

_ENDED = """
WITH chosen AS (
    SELECT model, module_id FROM night_models
    WHERE night_id = :night AND series = :series AND module_id IS NOT NULL
), placed AS (
    SELECT c.model, m.op_id, m.uses FROM chosen c JOIN module_ops m ON m.module_id = c.module_id
    UNION ALL
    SELECT '', m.op_id, SUM(m.uses) FROM chosen c JOIN module_ops m ON m.module_id = c.module_id GROUP BY m.op_id
), ended AS (
    SELECT p.model, p.op_id, p.uses, o.op_name, COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind,
           COALESCE(t.status, CASE WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END) AS status,
           COALESCE(t.stage_reached, 'split') AS stage_reached, COALESCE(t.ran_on, 'none') AS ran_on,
           t.expected <> '' AND NOT t.is_failure AS known, t.flaky, t.cycles, t.l1_peak_bytes, t.compile_seconds
    FROM placed p
    JOIN ops o ON o.op_id = p.op_id
    LEFT JOIN op_tests t
      ON t.night_id = :night AND t.series = :series AND t.op_id = p.op_id AND t.superseded_by = ''
)"""

COUNTS = sa.text(f"""
INSERT INTO night_counts (night_id, series, model, op_name, op_kind, status, stage_reached, ran_on, known, ops, uses,
                          flaky_ops, cycles, l1_peak_bytes, compile_seconds)
{_ENDED}
SELECT :night, :series, model, op_name, MIN(op_kind), status, stage_reached, ran_on, COALESCE(known, false), COUNT(*),
       SUM(uses), SUM(CASE WHEN flaky THEN 1 ELSE 0 END), COALESCE(SUM(cycles * uses), 0),
       COALESCE(MAX(l1_peak_bytes), 0), COALESCE(SUM(compile_seconds), 0.0)
FROM ended
GROUP BY model, op_name, status, stage_reached, ran_on, COALESCE(known, false)""")

MODELS = sa.text(f"""
SELECT model, SUM(ops) AS ops, SUM(CASE WHEN status IN {UNATTEMPTED} THEN 0 ELSE ops END) AS attempted_ops,
       SUM(CASE WHEN status = 'success' THEN ops ELSE 0 END) AS right_ops,
       SUM(CASE WHEN status IN {BAD} THEN ops ELSE 0 END) AS bad_ops, SUM(flaky_ops) AS flaky_ops,
       SUM(uses) AS uses, SUM(CASE WHEN status IN {UNATTEMPTED} THEN 0 ELSE uses END) AS attempted_uses,
       SUM(CASE WHEN status = 'success' THEN uses ELSE 0 END) AS right_uses,
       SUM(CASE WHEN status IN {BAD} THEN uses ELSE 0 END) AS bad_uses
FROM night_counts
WHERE night_id = :night AND series = :series AND model <> ''
GROUP BY model""")

PAIRS = sa.text(f"""
INSERT INTO night_pairs (night_id, series, model, ran_on, both_ops, right_before, right_now, both_uses,
                         right_uses_before, right_uses_now)
{_ENDED}, earlier AS (
    SELECT COALESCE(a.new_id, t.op_id) AS op_id, MAX(t.status) AS status, MAX(t.ran_on) AS ran_on
    FROM op_tests t
    LEFT JOIN op_alias a ON a.old_id = t.op_id
    WHERE t.night_id = :previous AND t.series = :series AND t.superseded_by = '' AND t.status NOT IN {UNATTEMPTED}
    GROUP BY COALESCE(a.new_id, t.op_id)
), pairs AS (
    SELECT e.model, e.uses, CASE WHEN b.status = 'success' THEN b.ran_on END AS before_on,
           CASE WHEN e.status = 'success' THEN e.ran_on END AS now_on
    FROM ended e
    JOIN earlier b ON b.op_id = e.op_id
    WHERE e.status NOT IN {UNATTEMPTED}
), places AS (
    SELECT before_on AS ran_on FROM pairs WHERE before_on IS NOT NULL
    UNION SELECT now_on FROM pairs WHERE now_on IS NOT NULL
)
SELECT :night, :series, p.model, o.ran_on, COUNT(*), SUM(CASE WHEN p.before_on = o.ran_on THEN 1 ELSE 0 END),
       SUM(CASE WHEN p.now_on = o.ran_on THEN 1 ELSE 0 END), SUM(p.uses),
       SUM(CASE WHEN p.before_on = o.ran_on THEN p.uses ELSE 0 END),
       SUM(CASE WHEN p.now_on = o.ran_on THEN p.uses ELSE 0 END)
FROM pairs p
CROSS JOIN places o
GROUP BY p.model, o.ran_on""")

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
"""Of several rows of an op in a night the newest counts, one that was attempted before one that was not."""
