-- Like for like, for dashboards: the ops that were attempted in a night and in the one before it, and how many of them were
-- right in each. A larger set of models moves no share here. Rows whose model is empty count each op once over all models.
--   target: backend and board
--   newest: 1 in the last night of its series
--   model: the model; empty: all models together
--   both_ops: the denominator, unique ops attempted in both nights
--   right_before: of these, right in the night before
--   right_now: of these, right in this night
--   both_uses: places of the ops in both, in this night's models
--   right_uses_before: places of those right in the night before
--   right_uses_now: places of those right in this night
SELECT s.night_id, s.started, s.backend, s.arch, s.series, s.backend || ' ' || s.arch AS target, p.ran_on, p.model,
       CASE WHEN s.started = l.started THEN 1 ELSE 0 END AS newest,
       p.both_ops, p.right_before, p.right_now, p.both_uses, p.right_uses_before, p.right_uses_now
FROM night_series s
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l ON l.series = s.series
JOIN night_pairs p ON p.night_id = s.night_id AND p.series = s.series
