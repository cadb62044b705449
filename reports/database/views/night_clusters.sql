-- Causes of failure of a night, expected failures included that are not for good, and what each holds back: the ranking of `opscope unblock`.
--   model_count: models that it holds back
--   uses: uses of its ops
--   ops: unique ops that fail for this cause
--   first_seen: when the first night began that has this cause, of any series
SELECT f.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, f.series, s.backend, {board s} AS arch, s.data_format, f.position, f.cluster,
       f.stage AS failed_stage, f.message AS error_message, f.op_names, f.models, f.model_count, f.alone, f.uses, f.ops, f.known AS expected_ops, f.repro, 
       (SELECT MIN(b.started) FROM night_fixes a JOIN night_series b ON b.night_id = a.night_id AND b.series = a.series
        WHERE a.cluster = f.cluster) AS first_seen,
       COALESCE((SELECT w.team FROM owners w
                 WHERE ', ' || f.op_names || ',' LIKE w.op ESCAPE '!' AND f.stage LIKE w.stage ESCAPE '!'
                   AND f.cluster LIKE w.cluster ESCAPE '!' AND ', ' || f.models || ',' LIKE w.model ESCAPE '!'
                 ORDER BY w.position LIMIT 1), '') AS owner,
       COALESCE(x.author || ', ' || x.written || ' UTC' || CASE x.until WHEN '' THEN '' ELSE ', until ' || x.until END || ': ' || x.text, '') AS remark
FROM night_fixes f
JOIN night_series s ON s.night_id = f.night_id AND s.series = f.series
JOIN nights n ON n.night_id = f.night_id
LEFT JOIN notes x ON x.cause = f.cluster
WHERE f.position > 0
