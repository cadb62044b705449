-- What was expected of each night, what it delivered, and what changed besides the results. One row per night and series.
--   dtype: element type of the models, as asked for
--   changed: what else changed since the previous night: compiler, jaxlib or models; a step on such a night is no regression
--   nights_ago: 0 for the newest night of its series, below 0 for one that is dated later than now
SELECT s.night_id, n.name, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, n.demo, s.started, s.series, s.backend, {board s} AS arch, s.dtype, s.data_format,
       s.math_fidelity, s.status AS night_status, s.missing, s.asked, s.ran, s.build_failed, s.export_failed, s.prepare_failed,
       s.framework_missing, s.not_run, s.models_missing, s.previous_night, s.compiler, s.jaxlib, s.revision, s.compiler_changed,
       s.jaxlib_changed, s.models_changed,
       TRIM(CASE WHEN s.compiler_changed THEN 'compiler ' ELSE '' END || CASE WHEN s.jaxlib_changed THEN 'jaxlib ' ELSE '' END
            || CASE WHEN s.models_changed THEN 'models' ELSE '' END) AS changed,
       ROW_NUMBER() OVER (PARTITION BY s.series, n.kind ORDER BY s.started DESC, s.night_id DESC) - 1
       - COUNT(CASE WHEN s.night_id IN (SELECT night_id FROM nights_ahead) THEN 1 END) OVER (PARTITION BY s.series, n.kind) AS nights_ago
FROM night_series s
JOIN nights n ON n.night_id = s.night_id
