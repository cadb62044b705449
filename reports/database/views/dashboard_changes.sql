-- What changed since the previous night, one row per op and model that uses it. Left out: ops that are right in both
-- nights, and ops that were attempted for the first time and are right.
--   label: as in `night_diff`
--   change: as in `night_diff`
--   place: of `change` in the order of urgency, 1 first
--   news: 1 if the row fails a gate: NEW, REASON-CHANGED or PCC-DROP, neither expected nor flaky nor acknowledged
--   note: why it has that label
--   op: name and id
--   uses: how often the op occurs in that model
--   error_message: the error; for FIXED, the error that it had
--   status: how it ended in this night
--   flaky: `flaky` if repeated attempts disagreed
--   z_max: the largest z of the op in this night: its error over its scale
--   run_id: the run whose verdict counts
--   cause: the short id of the cause, as `opscope show` takes it
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
