-- How did the device cycles of each model move over two weeks of nights, like for like?
-- Its newest night against its earliest one among the fourteen nights of the series before that. Only ops that were measured in
-- both count, with their uses in the newest: an op that the compiler learned in between makes no model slower.
WITH ranked AS (
    SELECT s.night_id, s.series, SUBSTR(n.label, 1, 10) AS day, s.started, s.backend, {board s} AS arch, s.data_format,
           ROW_NUMBER() OVER (PARTITION BY s.series, n.kind ORDER BY s.started DESC, s.night_id DESC) - 1
           - COUNT(CASE WHEN s.night_id IN (SELECT night_id FROM nights_ahead) THEN 1 END) OVER (PARTITION BY s.series, n.kind) AS nights_ago
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id
    WHERE n.kind <> 'selection' AND s.status = 'complete'
), ran AS (
    SELECT r.*, m.model, m.module_id, MIN(r.nights_ago) OVER (PARTITION BY r.series, m.model) AS newest,
           MAX(r.nights_ago) OVER (PARTITION BY r.series, m.model) AS earliest
    FROM ranked r
    JOIN night_models m ON m.night_id = r.night_id AND m.series = r.series AND m.outcome = 'ran'
    WHERE r.nights_ago BETWEEN 0 AND 14
), measured AS MATERIALIZED (  -- or PostgreSQL looks anew for each use of a value
    SELECT a.series, a.day, CASE WHEN w.stopped = 1 THEN 'stopped' WHEN w.night_id <> a.night_id THEN 'older' ELSE 'newest' END AS standing, a.backend, a.arch, a.data_format, a.model, b.started AS since, a.started, u.uses,
           -- Single values, not joins: each is one look into an index, however many nights there are.
           (SELECT MAX(t.cycles) FROM op_tests t WHERE t.night_id = b.night_id AND t.series = b.series AND t.op_id = u.op_id
            AND t.superseded_by = '') AS cycles_before,
           (SELECT MAX(t.cycles) FROM op_tests t WHERE t.night_id = a.night_id AND t.series = a.series AND t.op_id = u.op_id
            AND t.superseded_by = '') AS cycles_now
    FROM ran a
    JOIN ran b ON b.series = a.series AND b.model = a.model AND b.nights_ago = b.earliest AND b.nights_ago > a.nights_ago
    JOIN module_ops u ON u.module_id = a.module_id
    LEFT JOIN (SELECT series, MAX(night_id) AS night_id, MAX(stopped) AS stopped FROM night_dates WHERE newest = 1 GROUP BY series) w
      ON w.series = a.series
    WHERE a.nights_ago = a.newest
)
SELECT series, day, standing, backend, arch, data_format, model, since, started, COUNT(*) AS both_ops, SUM(uses * cycles_before) AS cycles_before,
       SUM(uses * cycles_now) AS cycles_now, 1.0 * SUM(uses * cycles_now) / NULLIF(SUM(uses * cycles_before), 0) - 1 AS change
FROM measured
WHERE cycles_before IS NOT NULL AND cycles_now IS NOT NULL
GROUP BY series, day, standing, backend, arch, data_format, model, since, started
ORDER BY series, day, model
