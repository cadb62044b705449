-- The history of each op: how it ended in each night, its numbers, and where its diagnostics are. If an op's id changed,
-- its history is found under the new id.
--   op_id: the op; its new id if that changed
--   largest_ulp: of a sweep over all inputs the largest error in units in the last place
--   all_ms: milliseconds of all stages
SELECT t.night_id, s.started, s.date, s.day, s.of_date, s.backend, s.board AS arch, s.series, s.platform,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.op_name, o.op_id, o.op_name || ' ' || o.op_id AS op,
       o.signature, o.dtype, o.rank, t.status, t.stage_reached, t.failed_stage, SUBSTR(t.cause, 1, 8) AS cause,
       t.error_message, t.expected, t.ran_on, t.z_max, t.largest_ulp, t.pcc, t.hypothesis, t.cycles, t.device_ns, t.l1_peak_bytes, t.dram_peak_bytes,
       1000 * t.compile_seconds AS compile_ms, 1000 * t.seconds AS all_ms,
       CASE WHEN t.flaky THEN 'flaky' ELSE '' END AS flaky, t.run_id, t.artifact, t.repro
-- SQLite takes tables of a CROSS JOIN in their order: from the op to its tests, never through all op tests of the nights.
FROM ops o
CROSS JOIN (SELECT op_id AS old_id, op_id FROM ops UNION ALL SELECT old_id, new_id FROM op_alias) a
CROSS JOIN op_tests t
CROSS JOIN night_dates s
WHERE a.op_id = o.op_id AND t.op_id = a.old_id AND t.superseded_by = '' AND s.night_id = t.night_id AND s.series = t.series
