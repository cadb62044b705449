-- What the models cost on the device and in the compiler, night by night; each unique op is compiled once and executed as
-- often as it stands in the model. Ops without cycles (not run on a device) are left out of the cycles.
--   model: the model, or `all models`
--   cycles: device cycles of all uses, one after another
--   compile_seconds: what compiling the unique ops took
--   measured_ops: unique ops that came out right
--   changed: what is another than in the night before, of compiler, jaxlib and models
SELECT c.night_id, n.label, n.kind, s.started, c.series, s.backend, s.arch, s.data_format,
       CASE WHEN c.model = '' THEN 'all models' ELSE c.model END AS model, c.op_kind, SUM(c.cycles) AS cycles,
       SUM(c.compile_seconds) AS compile_seconds, SUM(c.ops) AS measured_ops,
       TRIM(CASE WHEN s.compiler_changed THEN 'compiler ' ELSE '' END || CASE WHEN s.jaxlib_changed THEN 'jaxlib ' ELSE '' END
            || CASE WHEN s.models_changed THEN 'models' ELSE '' END) AS changed
FROM night_counts c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
WHERE c.status = 'success'
GROUP BY c.night_id, n.label, n.kind, s.started, c.series, s.backend, s.arch, s.data_format, c.model, c.op_kind,
         s.compiler_changed, s.jaxlib_changed, s.models_changed
