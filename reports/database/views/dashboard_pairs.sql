-- Like for like: the ops that were attempted in a night and in the previous one, and how many of them were right in each, at
-- the place where an op has to run to count. New models do not affect these shares. Rows with an empty model count each op
-- once over all models.
--   both_ops: unique ops attempted in both nights
--   right_before: of these, right in the previous night
--   right_now: of these, right in this night
--   both_uses: uses of the ops in both, in this night's models
--   right_uses_before: uses of those that were right in the previous night
--   right_uses_now: uses of those that are right in this night
SELECT s.night_id, s.started, s.backend, w.board AS arch, s.series, s.place, w.platform, p.model,
       w.date, w.day, w.newest, w.tonight, w.of_date,
       MAX(p.both_ops) AS both_ops,
       SUM(CASE WHEN p.ran_on NOT IN ('host', 'none') OR s.place = 'host' THEN p.right_before ELSE 0 END) AS right_before,
       SUM(CASE WHEN p.ran_on NOT IN ('host', 'none') OR s.place = 'host' THEN p.right_now ELSE 0 END) AS right_now,
       MAX(p.both_uses) AS both_uses,
       SUM(CASE WHEN p.ran_on NOT IN ('host', 'none') OR s.place = 'host' THEN p.right_uses_before ELSE 0 END) AS right_uses_before,
       SUM(CASE WHEN p.ran_on NOT IN ('host', 'none') OR s.place = 'host' THEN p.right_uses_now ELSE 0 END) AS right_uses_now
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_dates w
CROSS JOIN night_places s
CROSS JOIN night_pairs p
WHERE s.night_id = w.night_id AND s.series = w.series AND p.night_id = w.night_id AND p.series = w.series
GROUP BY s.night_id, s.started, s.backend, w.board, s.series, s.place, p.model, w.platform, w.date, w.day, w.newest, w.tonight, w.of_date
