-- How the ops of each night ended, by model, op name and stage. Unique ops, each counted once per model that uses it; rows
-- with an empty model count it once over all models. An op that fell back to the host was attempted on the device and is
-- not right there.
--   compile_seconds: time to compile the ops
--   attempted_ops: all but golden_in_doubt, stopped, skipped and not_run
--   right_ops: attempted and right, at the place where an op has to run to count
--   failing_ops: gone wrong, and no limitation names the failure
SELECT s.night_id, s.started, s.backend, w.board AS arch, s.series, s.place, c.ran_on, w.platform,
       w.date, w.day, w.newest, w.tonight, w.of_date, s.night_status,
       c.model, c.model || w.named AS model_on, c.op_kind, c.op_name, c.status,
       {numbered c} AS furthest_stage,
       c.ops, c.uses, c.flaky_ops, NULLIF(c.cycles, 0) AS cycles_of_all_uses, c.compile_seconds,
       CASE WHEN c.status IN {NOT_ATTEMPTED} THEN 0 ELSE c.ops END AS attempted_ops,
       CASE WHEN c.status IN {NOT_ATTEMPTED} THEN 0 ELSE c.uses END AS attempted_uses,
       CASE WHEN c.status IN {RIGHT} AND (c.ran_on NOT IN ('host', 'none') OR s.place = 'host') THEN c.ops ELSE 0 END AS right_ops,
       CASE WHEN c.status IN {RIGHT} AND (c.ran_on NOT IN ('host', 'none') OR s.place = 'host') THEN c.uses ELSE 0 END AS right_uses,
       CASE WHEN c.status IN {FAILED} AND NOT c.known THEN c.ops ELSE 0 END
           AS failing_ops,
       CASE WHEN c.status IN {FAILED} AND c.known THEN c.ops ELSE 0 END AS expected_ops
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_dates w
CROSS JOIN night_places s
CROSS JOIN night_counts c
WHERE s.night_id = w.night_id AND s.series = w.series AND c.night_id = w.night_id AND c.series = w.series
