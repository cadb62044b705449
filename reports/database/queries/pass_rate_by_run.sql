-- How did the share of right results move from run to run, in each place of execution?
SELECT r.series, SUBSTR(n.label, 1, 10) AS day,
       CASE WHEN w.stopped = 1 THEN 'stopped' WHEN s.status <> 'complete' THEN 'partial' WHEN w.newest = 0 THEN 'older' ELSE 'newest' END AS standing,
       r.started, p.run_id, p.backend, p.arch, p.ran_on, r.backend_revision, p.attempted_ops, p.right_ops, p.pass_rate,
       p.pass_rate_of_uses
FROM pass_rate p
JOIN runs r ON r.run_id = p.run_id
JOIN nights n ON n.night_id = r.night_id
-- A run of several backends has a series of each.
LEFT JOIN night_series s ON s.night_id = r.night_id AND s.series = p.backend || SUBSTR(r.series, LENGTH(r.backend) + 1)
LEFT JOIN night_dates w ON w.night_id = s.night_id AND w.series = s.series
ORDER BY r.started, p.run_id, p.ran_on
