-- The ops of the newest night of each series, one row per model that uses the op: how far it got, and why no further. Charts
-- of tonight leave out series that have stopped. If an op's id changed, it has the new one.
--   place: `device` if ops of the night ran on a device or its simulator, else `host`
--   model_on: the model, and the platform if there is more than one tonight
--   kind_on: the op's family, and the platform if there is more than one tonight
--   dtype_on: the element type, and the platform if there is more than one tonight
--   rank_on: the number of dimensions, and the platform if there is more than one tonight
--   op: name and id
--   uses: how often the op occurs in that model
--   furthest_stage: the last stage that was passed, numbered in the order of the stages
--   supported: `yes` if it is right, `known gap` for an expected failure, `not tried`, else `no`
--   right_op: 1 if it is right at the place where an op has to run to count
--   compile_seconds: time of the stages before `run`
--   z_max: the largest error over its own scale
--   cycles_of_all_uses: device cycles of one execution times its uses in that model
--   cycles_error: how far the cycles may be from a card's, in percent, by the kinds of its kernels
--   flaky: `flaky` if repeated attempts disagreed
--   cause: the short id of the cause, as `opscope show` takes it
SELECT r.night_id, w.started, w.date, w.day, w.tonight, w.backend, w.board AS arch, r.series, w.platform, w.place, r.model, r.op_kind,
       r.op_name, r.op_id, r.op_name || ' ' || r.op_id AS op, r.signature, r.dtype, r.rank, r.uses, r.status,
       r.model || w.named AS model_on, r.op_kind || w.named AS kind_on, r.dtype || w.named AS dtype_on,
       'rank ' || r.rank || w.named AS rank_on,
       CASE r.stage_reached WHEN 'split' THEN '0 split' WHEN 'stablehlo-to-ttir' THEN '1 stablehlo-to-ttir'
            WHEN 'ttir-to-ttnn' THEN '2 ttir-to-ttnn' WHEN 'ttnn-to-flatbuffer' THEN '3 ttnn-to-flatbuffer'
            WHEN 'run' THEN '8 run' WHEN 'compare' THEN '9 compare'
            ELSE CASE (SELECT l.depth FROM night_stages l  -- a chart that does not show it does not look for it
                       WHERE l.night_id = r.night_id AND l.series = r.series AND l.stage = r.stage_reached)
                 WHEN 2 THEN '4 ' WHEN 3 THEN '5 ' WHEN 4 THEN '6 ' ELSE '7 ' END || r.stage_reached
            END AS furthest_stage,
       r.failed_stage, SUBSTR(r.cluster, 1, 8) AS cause, r.error_message, r.expected, r.ran_on,
       CASE WHEN r.status IN {RIGHT} THEN 'yes'
            WHEN r.status IN {NOT_ATTEMPTED} THEN 'not tried'
            WHEN r.expected <> '' THEN 'known gap' ELSE 'no' END AS supported,
       CASE WHEN r.status IN {RIGHT} AND (r.ran_on NOT IN ('host', 'none') OR w.place = 'host')
            THEN 1 ELSE 0 END AS right_op,
       -- A single value, not a join: a chart that does not show it does not look for it.
       COALESCE((SELECT d.owner FROM night_diff d WHERE d.night_id = r.night_id AND d.series = r.series
                 AND d.op_id = r.op_id), '') AS owner,
       r.z_max, r.pcc, r.cycles, r.cycles * r.uses AS cycles_of_all_uses, r.l1_peak_bytes, r.dram_peak_bytes, r.limiter,
       r.cycles_error,
       r.utilisation, r.dram_bytes, r.noc_bytes, r.compile_seconds, r.seconds,
       CASE WHEN r.flaky THEN 'flaky' ELSE '' END AS flaky, r.run_id, r.artifact, r.repro
-- SQLite takes tables of a CROSS JOIN in their order: the newest nights first.
FROM (SELECT n.*, p.place
      FROM night_dates n
      JOIN night_places p ON p.night_id = n.night_id AND p.series = n.series
      WHERE n.newest = 1) w
CROSS JOIN night_newest_ops r
WHERE r.night_id = w.night_id AND r.series = w.series
