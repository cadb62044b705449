-- How did the share of right results move from run to run, in each place of execution?
WITH newest AS MATERIALIZED (  -- or SQLite looks through all nights for each row
    SELECT series, MAX(night_id) AS night_id, MAX(stopped) AS stopped FROM night_dates WHERE newest = 1 GROUP BY series
)
SELECT r.series, SUBSTR(n.label, 1, 10) AS day,
       CASE WHEN s.night_id = w.night_id AND w.stopped = 1 THEN 'stopped' WHEN s.status <> 'complete' THEN 'partial'
            WHEN s.night_id <> w.night_id THEN 'older' ELSE 'newest' END AS standing,
       r.started, p.run_id, p.backend, p.arch, p.ran_on, r.backend_revision, p.attempted_ops, p.right_ops, p.pass_rate,
       p.pass_rate_of_uses
FROM pass_rate p
JOIN runs r ON r.run_id = p.run_id
JOIN nights n ON n.night_id = r.night_id
-- A run of several backends has a series of each.
LEFT JOIN night_series s ON s.night_id = r.night_id AND s.series = p.backend || SUBSTR(r.series, LENGTH(r.backend) + 1)
LEFT JOIN newest w ON w.series = s.series
ORDER BY r.started, p.run_id, p.ran_on
