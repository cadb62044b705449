-- What changed since the previous night, one row per op and model that uses it. Left out: ops that are right in both
-- nights, and ops that were attempted for the first time and are right.
--   place: of `change` in the order of urgency, 1 first
SELECT d.night_id, d.started, d.backend, w.board AS arch, d.series, w.platform,
       w.date, w.day, w.newest, w.tonight, w.of_date,
       d.label, d.change, {place d.change} AS place, d.note, m.model, d.op_kind, d.op_name, d.op_id, d.op_name || ' ' || d.op_id AS op, d.signature,
       m.uses, d.news, d.expected, SUBSTR(d.cluster, 1, 8) AS cause, d.failed_stage, d.error_message, d.status_before, d.status_now AS status, d.owner, d.remark,
       d.pcc_before, d.pcc_now, d.cycles_before, d.cycles_now, d.compile_ms_before, d.compile_ms_now,
       CASE WHEN d.flaky THEN 'flaky' ELSE '' END AS flaky,
       (SELECT MAX(t.z_max) FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '') AS z_max,
       -- Single values, not a join: what a chart does not show is not looked for.
       (SELECT t.run_id FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '' LIMIT 1) AS run_id,
       (SELECT t.artifact FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '' LIMIT 1) AS artifact
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_dates w
CROSS JOIN night_diff d
CROSS JOIN night_change_models m
WHERE d.night_id = w.night_id AND d.series = w.series
  AND m.night_id = w.night_id AND m.series = w.series AND m.op_id = d.op_id
