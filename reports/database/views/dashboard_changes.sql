-- What changed since the previous night, one row per op and model that uses it. Left out: ops that are right in both
-- nights, and ops that were attempted for the first time and are right.
--   platform: backend and board
--   newest: 1 in the newest night of its series
--   label: as in `night_diff`
--   note: why it has that label
--   op: name and id
--   uses: how often the op occurs in that model
--   error_message: the error; for FIXED, the error that it had
--   status: how it ended in this night
--   flaky: `flaky` if repeated attempts disagreed
--   z_max: the largest z of the op in this night: its error over its scale
--   run_id: the run whose verdict counts
SELECT d.night_id, d.started, d.backend, d.arch, d.series, d.backend || ' ' || d.arch AS platform,
       CASE WHEN d.started = l.started THEN 1 ELSE 0 END AS newest,
       d.label, d.note, m.model, d.op_kind, d.op_name, d.op_id, d.op_name || ' ' || d.op_id AS op, d.signature,
       m.uses, d.expected, d.cluster, d.failed_stage, d.error_message, d.status_before, d.status_now AS status, d.owner,
       d.pcc_before, d.pcc_now, d.cycles_before, d.cycles_now, d.compile_ms_before, d.compile_ms_now,
       CASE WHEN d.flaky THEN 'flaky' ELSE '' END AS flaky,
       (SELECT MAX(t.z_max) FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '') AS z_max,
       -- Single values, not a join: what a chart does not show is not looked for.
       (SELECT t.run_id FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '' LIMIT 1) AS run_id,
       (SELECT t.artifact FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '' LIMIT 1) AS artifact
FROM night_diff d
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l ON l.series = d.series
JOIN night_change_models m ON m.night_id = d.night_id AND m.series = d.series AND m.op_id = d.op_id
