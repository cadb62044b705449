-- Which ops ended now one way, now another, over all runs?
WITH ended AS (  -- counted by ending before by op: PostgreSQL sorts all op tests to count distinct ones
    SELECT t.backend, t.arch, COALESCE(NULLIF(t.data_format, ''), 'default') AS data_format, t.op_id, {ending t} AS ending, COUNT(*) AS runs,
           MAX(CASE WHEN t.flaky THEN 1 ELSE 0 END) AS flaky
    FROM op_tests t
    WHERE t.superseded_by <> t.run_id AND {ending t} NOT IN {NOT_ATTEMPTED}
    GROUP BY t.op_id, t.backend, t.arch, t.data_format, {ending t}  -- what differs most first
), flipping AS (
    SELECT backend, arch, data_format, op_id, SUM(runs) AS runs, COUNT(*) AS endings, MAX(flaky) AS flaky,
           SUM(CASE WHEN ending IN {RIGHT} THEN runs ELSE 0 END) AS right_runs
    FROM ended
    GROUP BY backend, arch, data_format, op_id
    HAVING COUNT(*) > 1
)
SELECT f.backend, f.arch, f.data_format, o.op_name, o.signature, f.runs, f.endings, f.right_runs, f.flaky, f.op_id
FROM flipping f
JOIN ops o ON o.op_id = f.op_id
ORDER BY f.endings DESC, f.runs DESC, f.op_id
