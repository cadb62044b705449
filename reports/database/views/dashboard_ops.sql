-- The ops of the newest night of each series, one row per model that uses the op: how far it got, and why no further.
--   platform: backend and board
--   op: name and id
--   dtype: element type of its first operand
--   uses: how often the op occurs in that model
--   furthest_stage: the last stage that was passed, numbered in their order
--   supported: `yes` if it is right, `known gap` for an expected failure, `not tried`, else `no`
--   compile_seconds: time of the stages before `run`
--   z_max: the largest error over its own scale
--   cycles_of_all_uses: device cycles of one execution times its uses in that model
--   flaky: `flaky` if repeated attempts disagreed
SELECT s.night_id, s.started, s.backend, s.arch, s.series, s.backend || ' ' || s.arch AS platform, m.model,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.op_name, t.op_id, o.op_name || ' ' || t.op_id AS op,
       o.signature, o.dtype, o.rank, u.uses, {ending t} AS status,
       CASE t.stage_reached WHEN 'split' THEN '0 split' WHEN 'stablehlo-to-ttir' THEN '1 stablehlo-to-ttir'
            WHEN 'ttir-to-ttnn' THEN '2 ttir-to-ttnn' WHEN 'ttnn-to-flatbuffer' THEN '3 ttnn-to-flatbuffer'
            WHEN 'run' THEN '8 run' WHEN 'compare' THEN '9 compare' ELSE '5 ' || t.stage_reached END AS furthest_stage,
       t.failed_stage, t.cause AS cluster, t.error_message, t.expected, t.ran_on,
       CASE WHEN {ending t} IN ('success', 'passed') THEN 'yes' WHEN {ending t} IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run') THEN 'not tried'
            WHEN t.expected <> '' THEN 'known gap' ELSE 'no' END AS supported,
       COALESCE((SELECT d.owner FROM night_diff d WHERE d.night_id = s.night_id AND d.series = s.series
                 AND d.op_id = t.op_id), '') AS owner,
       t.z_max, t.pcc, t.cycles, t.cycles * u.uses AS cycles_of_all_uses, t.l1_peak_bytes,
       t.dram_peak_bytes, t.limiter, t.utilisation, t.dram_bytes, t.noc_bytes, t.compile_seconds, t.seconds,
       CASE WHEN t.flaky THEN 'flaky' ELSE '' END AS flaky, t.run_id, t.artifact, t.repro
-- SQLite takes tables of a CROSS JOIN in their order: the newest nights first, never the op tests of a year.
FROM (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l
CROSS JOIN night_series s
CROSS JOIN night_models m
CROSS JOIN module_ops u
CROSS JOIN op_tests t
CROSS JOIN ops o
WHERE s.series = l.series AND s.started = l.started AND m.night_id = s.night_id AND m.series = s.series
  AND u.module_id = m.module_id AND t.night_id = s.night_id AND t.series = s.series AND t.op_id = u.op_id
  AND t.superseded_by = '' AND o.op_id = t.op_id
