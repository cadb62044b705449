-- What changed from night to night, for dashboards: the rows of `night_diff`, one per model that the op stands in. Left out:
-- ops that are right in both nights, and ops first attempted and right.
--   target: backend and board
--   newest: 1 in the last night of its series
--   label: as in `night_diff`
--   note: what the label rests on
--   op: name and id
--   uses: places in that model
--   error: what the error said; of a FIXED op, what it said before
--   status: how it ended in this night
--   flaky: `flaky` where it ended otherwise when it was run again
--   run_id: the run whose verdict counts
SELECT d.night_id, d.started, d.backend, d.arch, d.series, d.backend || ' ' || d.arch AS target,
       CASE WHEN d.started = l.started THEN 1 ELSE 0 END AS newest,
       d.label, d.note, m.model, d.op_kind, d.op_name, d.op_id, d.op_name || ' ' || d.op_id AS op, d.signature,
       m.uses, d.known, d.cluster, d.stage, d.message AS error, d.status_before, d.status_now AS status, d.owner,
       d.pcc_before, d.pcc_now, d.cycles_before, d.cycles_now, d.compile_ms_before, d.compile_ms_now,
       CASE WHEN d.flaky THEN 'flaky' ELSE '' END AS flaky,
       -- Single values, not a join: what a chart does not show is not looked for.
       (SELECT t.run_id FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '' LIMIT 1) AS run_id,
       (SELECT t.artifact FROM op_tests t WHERE t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id
        AND t.superseded_by = '' LIMIT 1) AS artifact
FROM night_diff d
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l ON l.series = d.series
JOIN night_change_models m ON m.night_id = d.night_id AND m.series = d.series AND m.op_id = d.op_id
