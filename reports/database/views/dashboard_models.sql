-- How far each model is in each night, in unique ops. A model is whole when all of its ops are right, wherever they ran.
--   cycles_of_all_uses: device cycles of its right ops, once per use: of the whole model only where it is whole
SELECT s.night_id, s.started, s.backend, w.board AS arch, s.series, w.platform,
       w.date, w.day, w.newest, w.tonight, w.of_date, s.status AS night_status,
       m.model, m.outcome, m.reason, m.ops, m.attempted_ops, m.right_ops, m.bad_ops, m.flaky_ops,
       m.uses, m.attempted_uses, m.right_uses, m.bad_uses,
       CASE WHEN m.outcome = 'ran' AND m.bad_ops = 0 AND COALESCE(g.right_whole, CASE WHEN m.right_ops = m.ops THEN 1 ELSE 0 END) = 1
            THEN 1 ELSE 0 END AS whole,
       -- A single value, not a join: a chart that does not show it does not look for it.
       (SELECT NULLIF(SUM(c.cycles), 0) FROM night_counts c WHERE c.night_id = m.night_id AND c.series = m.series AND c.model = m.model)
           AS cycles_of_all_uses
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_dates w
CROSS JOIN night_series s
CROSS JOIN night_models m
LEFT JOIN night_programs g ON g.night_id = m.night_id AND g.series = m.series AND g.model = m.model
WHERE s.night_id = w.night_id AND s.series = w.series AND m.night_id = w.night_id AND m.series = w.series
  AND m.model <> ''
