-- What changed from night to night, op by op: the labels of `opscope diff` against the previous night. Left out: ops that
-- are right in both nights, and ops that were attempted for the first time and are right.
--   models: the models of either night that use the op
--   now_bad: 1 if the op goes wrong in this night
SELECT d.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, d.series, s.backend, {board s} AS arch, s.data_format, s.previous_night,
       d.label, d.note, d.op_id, o.op_name, COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.signature, o.dtype,
       o.rank, d.status_before, d.status_now, d.stage AS failed_stage, d.cluster, d.message AS error_message, d.known AS expected, d.flaky, d.models, d.model_count,
       d.uses, d.pcc_before, d.pcc_now, d.cycles_before, d.cycles_now, d.compile_ms_before, d.compile_ms_now,
       COALESCE((SELECT w.team FROM owners w
                 WHERE ', ' || o.op_name || ',' LIKE w.op ESCAPE '!' AND d.stage LIKE w.stage ESCAPE '!'
                   AND d.cluster LIKE w.cluster ESCAPE '!' AND ', ' || d.models || ',' LIKE w.model ESCAPE '!'
                 ORDER BY w.position LIMIT 1), '') AS owner,
       {change d.label, d.known <> '', d.flaky, x.until >= SUBSTR(n.label, 1, 10)} AS change,
       CASE WHEN {change d.label, d.known <> '', d.flaky, x.until >= SUBSTR(n.label, 1, 10)} IN {NEWS} THEN 1 ELSE 0 END AS news,
       CASE WHEN x.until >= SUBSTR(n.label, 1, 10) THEN 1 ELSE 0 END AS acknowledged,
       COALESCE(x.author || ', ' || x.written || ' UTC' || CASE x.until WHEN '' THEN '' ELSE ', until ' || x.until END || ': ' || x.text, '') AS remark,
       CASE WHEN d.label IN {NOW_BAD} THEN 1 ELSE 0 END AS now_bad
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_series s
CROSS JOIN nights n
CROSS JOIN night_changes d
CROSS JOIN ops o
LEFT JOIN notes x ON x.cause = d.cluster
WHERE n.night_id = s.night_id AND d.night_id = s.night_id AND d.series = s.series AND o.op_id = d.op_id
