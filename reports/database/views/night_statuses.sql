-- How the unique ops of each night ended, one row per status. The rows of a night add up to its ops.
--   status: the status; `unsplittable` is an op of which no module could be made
--   ops: unique ops that ended with it
--   uses: their uses in the models
SELECT c.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, c.series, s.backend, {board s} AS arch, s.data_format, c.status, c.ran_on, c.known AS is_expected,
       SUM(c.ops) AS ops, SUM(c.uses) AS uses
FROM night_counts c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
WHERE c.model = ''
GROUP BY c.night_id, n.label, n.kind, s.started, c.series, s.backend, {board s}, s.data_format, c.status, c.ran_on, c.known
