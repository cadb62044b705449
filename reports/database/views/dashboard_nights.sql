-- Every night of every series: what was asked for, what is missing, and what else changed since the previous night.
--   night_before: the same as `night`: the filter of the earlier of two nights offers it
--   data: `demo` for a night of `opscope demo`, else `real`
--   speaks: of the newest night of a series: `tonight`, since when it has stopped, `awaited`, or `no night` if it has only runs
--   pass_rate: right_ops / attempted_ops of `dashboard_counts`, over all models, each op once
--   dtype: element type of the models, as asked for
SELECT s.night_id, n.name, n.label || ' ' || n.zone AS night, n.label || ' ' || n.zone AS night_before,
       n.kind, CASE WHEN n.demo THEN 'demo' ELSE 'real' END AS data,
       s.started, s.series, s.backend, w.board AS arch, w.platform, s.dtype, s.data_format, s.math_fidelity,
       w.date, w.day, w.newest, w.tonight, w.of_date,
       CASE WHEN w.tonight = 1 THEN 'tonight' WHEN w.stopped = 1 THEN 'stopped since ' || w.day
            WHEN w.newest = 1 AND n.kind = 'night' THEN 'awaited' WHEN w.newest = 1 THEN 'no night' ELSE '' END AS speaks,
       -- Single values, not joins: what a chart does not show is not looked for.
       (SELECT p.place FROM night_places p WHERE p.night_id = s.night_id AND p.series = s.series) AS place,
       (SELECT 1.0 * SUM(c.right_ops) / NULLIF(SUM(c.attempted_ops), 0) FROM dashboard_counts c
        WHERE c.night_id = s.night_id AND c.series = s.series AND c.model = '') AS pass_rate,
       s.status AS night_status, s.missing, s.compiler, s.jaxlib, s.revision,
       TRIM(CASE WHEN s.compiler_changed THEN 'compiler ' ELSE '' END || CASE WHEN s.jaxlib_changed THEN 'jaxlib ' ELSE '' END
            || CASE WHEN s.models_changed THEN 'models' ELSE '' END) AS changed,
       s.asked, s.ran, s.build_failed, s.export_failed, s.prepare_failed, s.framework_missing, s.not_run, s.models_missing
FROM night_series s
JOIN nights n ON n.night_id = s.night_id
JOIN night_dates w ON w.night_id = s.night_id AND w.series = s.series
