-- Causes of failure by night and series: how many ops fail for each, and how many of them did not fail for it before.
-- One row per cause, night and series in which it occurs. A series that ran in a night and has no row for a cause did not
-- have it, if the night is complete. Expected failures are included, ops that no model uses are not.
--   cause: the short id of the cause, the first 8 digits of `cluster`
--   ops: unique ops that fail for this cause
--   new_ops: those that fail anew: NEW or REASON-CHANGED, neither expected nor flaky nor acknowledged
--   uses: uses of its ops
--   repro: the command that runs its op with the most uses again
--   log: run and path of the diagnostic of its op with the most uses; empty where none of its ops has one
SELECT c.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, c.series, s.backend, {board s} AS arch, s.data_format, s.status AS night_status,
       s.revision, CASE WHEN s.started = l.started THEN 1 ELSE 0 END AS newest,
       c.cluster, SUBSTR(c.cluster, 1, 8) AS cause, f.stage AS failed_stage, f.message AS error_message, f.op_names,
       c.ops, CASE WHEN x.until >= SUBSTR(n.label, 1, 10) THEN 0 ELSE c.new_ops END AS new_ops, c.expected_ops, c.flaky_ops, f.models, f.model_count, f.alone, f.uses, f.repro,
       -- Single values, not joins: what a query does not show is not looked for.
       COALESCE((SELECT w.team FROM owners w
                 WHERE ', ' || f.op_names || ',' LIKE w.op ESCAPE '!' AND f.stage LIKE w.stage ESCAPE '!'
                   AND f.cluster LIKE w.cluster ESCAPE '!' AND ', ' || f.models || ',' LIKE w.model ESCAPE '!'
                 ORDER BY w.position LIMIT 1), '') AS owner,
       COALESCE((SELECT t.run_id || '/' || t.artifact FROM night_changes d CROSS JOIN op_tests t  -- in this order: few ops fail
                 WHERE d.night_id = c.night_id AND d.series = c.series AND d.cluster = c.cluster
                   AND d.label IN {NOW_BAD}
                   AND t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id AND t.superseded_by = '' AND t.artifact <> ''
                 ORDER BY d.uses DESC, d.op_id DESC LIMIT 1), '') AS log,
       COALESCE(x.author || ', ' || x.written || ' UTC' || CASE x.until WHEN '' THEN '' ELSE ', until ' || x.until END || ': ' || x.text, '') AS remark
-- From the grouped changes: a condition on the night is then one on them, and no other night is read.
FROM (SELECT night_id, series, cluster, COUNT(*) AS ops, SUM(CASE WHEN known <> '' THEN 1 ELSE 0 END) AS expected_ops, SUM(CASE WHEN flaky THEN 1 ELSE 0 END) AS flaky_ops,
             SUM(CASE WHEN label IN {ANEW} AND known = '' AND NOT flaky THEN 1 ELSE 0 END) AS new_ops
      FROM night_changes WHERE label IN {NOW_BAD}
      GROUP BY night_id, series, cluster) c
JOIN night_fixes f ON f.night_id = c.night_id AND f.series = c.series AND f.cluster = c.cluster
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
JOIN (SELECT a.series, COALESCE(MAX(CASE b.kind WHEN 'night' THEN a.started END), MAX(a.started)) AS started
      FROM night_series a JOIN nights b ON b.night_id = a.night_id
      WHERE a.night_id NOT IN (SELECT night_id FROM nights_ahead) GROUP BY a.series) l ON l.series = c.series
LEFT JOIN notes x ON x.cause = c.cluster
