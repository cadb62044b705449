-- What the models cost on the device and in the compiler, night by night. Each unique op is compiled once and executed once
-- per use. Ops that did not run on a device have no cycles and are left out of them.
--   compile_seconds: time to compile the unique ops
SELECT c.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, c.series, s.backend, {board s} AS arch, s.data_format,
       CASE WHEN c.model = '' THEN 'all models' ELSE c.model END AS model, c.op_kind, NULLIF(SUM(c.cycles), 0) AS cycles_of_all_uses,
       SUM(c.compile_seconds) AS compile_seconds, SUM(c.ops) AS right_ops,
       TRIM(CASE WHEN s.compiler_changed THEN 'compiler ' ELSE '' END || CASE WHEN s.jaxlib_changed THEN 'jaxlib ' ELSE '' END
            || CASE WHEN s.models_changed THEN 'models' ELSE '' END) AS changed
FROM night_counts c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
WHERE c.status IN {RIGHT}
GROUP BY c.night_id, n.label, n.kind, s.started, c.series, s.backend, {board s}, s.data_format, c.model, c.op_kind,
         s.compiler_changed, s.jaxlib_changed, s.models_changed
