-- Which ops ended now one way, now another, over all runs?
SELECT t.backend, t.arch, {format t} AS data_format, o.op_name, o.signature, COUNT(*) AS runs, COUNT(DISTINCT {ending t}) AS endings,
       SUM(CASE WHEN {ending t} IN ('success', 'passed') THEN 1 ELSE 0 END) AS right_runs, MAX(CASE WHEN t.flaky THEN 1 ELSE 0 END) AS flaky,
       t.op_id
FROM op_tests t
JOIN ops o ON o.op_id = t.op_id
WHERE t.superseded_by <> t.run_id AND {ending t} NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
GROUP BY t.backend, t.arch, {format t}, t.op_id, o.op_name, o.signature
HAVING COUNT(DISTINCT {ending t}) > 1
ORDER BY endings DESC, runs DESC, t.op_id
