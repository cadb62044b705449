-- Like for like: the ops that were attempted in a night and in the previous one, and how many of them were right in each.
-- New models do not affect these shares. Rows with an empty model count each op once over all models.
--   platform: backend and board
--   newest: 1 in the newest night of its series
--   model: the model; empty for all models together
--   both_ops: unique ops attempted in both nights
--   right_before: of these, right in the previous night
--   right_now: of these, right in this night
--   both_uses: uses of the ops in both, in this night's models
--   right_uses_before: uses of those that were right in the previous night
--   right_uses_now: uses of those that are right in this night
SELECT s.night_id, s.started, s.backend, s.arch, s.series, s.backend || ' ' || s.arch AS platform, p.ran_on, p.model,
       CASE WHEN s.started = l.started THEN 1 ELSE 0 END AS newest,
       p.both_ops, p.right_before, p.right_now, p.both_uses, p.right_uses_before, p.right_uses_now
FROM night_series s
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l ON l.series = s.series
JOIN night_pairs p ON p.night_id = s.night_id AND p.series = s.series
