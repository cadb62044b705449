"""Which rows of a night count, as one statement. Its parameter is `night`."""

from __future__ import annotations

import sqlalchemy as sa

UNATTEMPTED = "('stopped', 'skipped', 'not_run')"

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
