-- Which ops ended now one way, now another, over all runs?
SELECT f.backend, f.arch, f.data_format, o.op_name, o.signature, f.runs, f.endings, f.right_runs, f.flaky, f.op_id
FROM (SELECT t.backend, t.arch, {format t} AS data_format, t.op_id, COUNT(*) AS runs, COUNT(DISTINCT {ending t}) AS endings,
             SUM(CASE WHEN {ending t} IN ('success', 'passed') THEN 1 ELSE 0 END) AS right_runs,
             MAX(CASE WHEN t.flaky THEN 1 ELSE 0 END) AS flaky
      FROM op_tests t
      WHERE t.superseded_by <> t.run_id AND {ending t} NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
      GROUP BY t.backend, t.arch, {format t}, t.op_id
      HAVING COUNT(DISTINCT {ending t}) > 1) f
JOIN ops o ON o.op_id = f.op_id
ORDER BY f.endings DESC, f.runs DESC, f.op_id
