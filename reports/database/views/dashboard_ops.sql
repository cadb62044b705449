-- The ops of the newest night of each series, one row per model that uses the op: how far it got, and why no further. Charts
-- of tonight leave out series that have stopped. If an op's id changed, it has the new one.
--   kind_on: the op's family, and the platform if there is more than one tonight
--   dtype_on: the element type, and the platform if there is more than one tonight
--   rank_on: the number of dimensions, and the platform if there is more than one tonight
--   supported: `yes` if it is right, `known gap` for an expected failure, `not tried`, else `no`
--   right_op: 1 if it is right at the place where an op has to run to count
--   compile_seconds: time of the stages before `run`
SELECT r.night_id, w.started, w.date, w.day, w.tonight, w.backend, w.board AS arch, r.series, w.platform, w.place, r.model, r.op_kind,
       r.op_name, r.op_id, r.op_name || ' ' || r.op_id AS op, r.signature, r.dtype, r.rank, r.uses, r.status,
       r.model || w.named AS model_on, r.op_kind || w.named AS kind_on, r.dtype || w.named AS dtype_on,
       'rank ' || r.rank || w.named AS rank_on,
       {numbered r} AS furthest_stage,
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
