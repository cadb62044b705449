-- Per night, model and op name: the furthest stage that its ops passed, and how they ended. The rows of model `all models`
-- count each unique op once, with its uses in all models: never add them to the others.
--   depth: the number of that stage, starting with 1 (split), to sort by
--   compile_seconds: time to compile all of the ops
SELECT c.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, c.series, s.backend, {board s} AS arch, s.data_format,
       CASE WHEN c.model = '' THEN 'all models' ELSE c.model END AS model, c.op_kind, c.op_name, c.stage_reached,
       COALESCE(d.depth, 0) AS depth, c.status, c.ran_on, c.known AS is_expected, c.ops, c.uses,
       c.flaky_ops, NULLIF(c.cycles, 0) AS cycles_of_all_uses, c.compile_seconds
FROM night_counts c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
LEFT JOIN night_stages d ON d.night_id = c.night_id AND d.series = c.series AND d.stage = c.stage_reached
