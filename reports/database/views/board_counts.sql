-- How the ops of each night ended, by model, name of op and stage, for dashboards. Unique ops, each once per model that it
-- stands in; rows whose model is empty count it once over all models. An op that fell back to the host is attempted on a
-- device, and not right there.
--   lane: `device` where ops of the night ran on a device or its simulator, else `host`
--   target: backend and board
--   newest: 1 in the last night of its series
--   model: the model; empty: all models together
--   stage: the last stage that was passed, numbered in their order
--   cycles: device cycles of all uses, one after another
--   compile_seconds: what compiling the ops took
--   attempted_ops: all but stopped, skipped and not_run
--   right_ops: attempted, and right where the lane runs
--   failing_ops: gone wrong, and no limitation names that
--   known_ops: gone wrong, and a limitation names that
SELECT s.night_id, s.started, s.backend, s.arch, s.series, s.lane, c.ran_on, s.backend || ' ' || s.arch AS target,
       CASE WHEN s.started = l.started THEN 1 ELSE 0 END AS newest,
       c.model, c.op_kind, c.op_name, c.status,
       CASE c.stage_reached WHEN 'split' THEN '0 split' WHEN 'stablehlo-to-ttir' THEN '1 stablehlo-to-ttir'
            WHEN 'ttir-to-ttnn' THEN '2 ttir-to-ttnn' WHEN 'ttnn-to-flatbuffer' THEN '3 ttnn-to-flatbuffer'
            WHEN 'run' THEN '8 run' WHEN 'compare' THEN '9 compare' ELSE '5 ' || c.stage_reached END AS stage,
       c.ops, c.uses, c.flaky_ops, c.cycles, c.compile_seconds,
       CASE WHEN c.status IN ('stopped', 'skipped', 'not_run') THEN 0 ELSE c.ops END AS attempted_ops,
       CASE WHEN c.status IN ('stopped', 'skipped', 'not_run') THEN 0 ELSE c.uses END AS attempted_uses,
       CASE WHEN c.status = 'success' AND (c.ran_on <> 'host' OR s.lane = 'host') THEN c.ops ELSE 0 END AS right_ops,
       CASE WHEN c.status = 'success' AND (c.ran_on <> 'host' OR s.lane = 'host') THEN c.uses ELSE 0 END AS right_uses,
       CASE WHEN c.status NOT IN ('success', 'stopped', 'skipped', 'not_run') AND NOT c.known THEN c.ops ELSE 0 END
           AS failing_ops,
       CASE WHEN c.status NOT IN ('success', 'stopped', 'skipped', 'not_run') AND c.known THEN c.ops ELSE 0 END AS known_ops
FROM night_lanes s
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l ON l.series = s.series
JOIN night_counts c ON c.night_id = s.night_id AND c.series = s.series
