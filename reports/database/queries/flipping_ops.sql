-- Which ops ended now one way, now another, over all runs of a series?
WITH ended AS (  -- counted by ending before by op: PostgreSQL sorts all op tests to count distinct ones
    SELECT t.series, t.op_id, t.status AS ending, COUNT(*) AS runs,
           MAX(CASE WHEN t.flaky THEN 1 ELSE 0 END) AS flaky
    FROM op_tests t
    WHERE t.superseded_by <> t.run_id AND t.status NOT IN {NOT_ATTEMPTED}
    GROUP BY t.op_id, t.series, t.status  -- what differs most first
), flipping AS (
    SELECT series, op_id, SUM(runs) AS runs, COUNT(*) AS endings, MAX(flaky) AS flaky,
           SUM(CASE WHEN ending IN {RIGHT} THEN runs ELSE 0 END) AS right_runs
    FROM ended
    GROUP BY series, op_id
    HAVING COUNT(*) > 1
), lanes AS (
    SELECT s.series, MAX(SUBSTR(n.label, 1, 10)) AS day, CASE MAX(w.stopped) WHEN 1 THEN 'stopped' ELSE 'newest' END AS standing,
           s.backend, {board s} AS arch, s.data_format
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id
    LEFT JOIN night_dates w ON w.night_id = s.night_id AND w.series = s.series
    GROUP BY s.series, s.backend, {board s}, s.data_format
)
SELECT f.series, l.day, l.standing, l.backend, l.arch, l.data_format, o.op_name, o.signature, f.runs, f.endings, f.right_runs, f.flaky, f.op_id
FROM flipping f
JOIN lanes l ON l.series = f.series
JOIN ops o ON o.op_id = f.op_id
ORDER BY f.endings DESC, f.runs DESC, f.op_id
