-- How the ops of each night ended, by model, op name and stage. Unique ops, each counted once per model that uses it; rows
-- with an empty model count it once over all models. An op that fell back to the host was attempted on the device and is
-- not right there.
--   place: `device` if ops of the night ran on a device or its simulator, else `host`
--   night_status: `complete`, `partial` or `broken`
--   model: the model; empty for all models together
--   model_on: the model, and the platform if there is more than one tonight
--   furthest_stage: the last stage that was passed, numbered in the order of the stages
--   cycles_of_all_uses: device cycles of all uses, one after another; null where none ran on a device
--   compile_seconds: time to compile the ops
--   attempted_ops: all but golden_in_doubt, stopped, skipped and not_run
--   right_ops: attempted and right, at the place where an op has to run to count
--   failing_ops: gone wrong, and no limitation names the failure
SELECT s.night_id, s.started, s.backend, w.board AS arch, s.series, s.place, c.ran_on, w.platform,
       w.date, w.day, w.newest, w.tonight, w.of_date, s.night_status,
       c.model, c.model || w.named AS model_on, c.op_kind, c.op_name, c.status,
       CASE c.stage_reached WHEN 'split' THEN '0 split' WHEN 'stablehlo-to-ttir' THEN '1 stablehlo-to-ttir'
            WHEN 'ttir-to-ttnn' THEN '2 ttir-to-ttnn' WHEN 'ttnn-to-flatbuffer' THEN '3 ttnn-to-flatbuffer'
            WHEN 'run' THEN '8 run' WHEN 'compare' THEN '9 compare'
            ELSE CASE (SELECT l.depth FROM night_stages l  -- a chart that does not show it does not look for it
                       WHERE l.night_id = c.night_id AND l.series = c.series AND l.stage = c.stage_reached)
                 WHEN 2 THEN '4 ' WHEN 3 THEN '5 ' WHEN 4 THEN '6 ' ELSE '7 ' END || c.stage_reached
            END AS furthest_stage,
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
