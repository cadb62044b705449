-- Every night of every series: what was asked for, what is missing, and what else changed since the previous night.
--   data: `demo` for a night of `opscope demo`, else `real`
--   newest: 1 in the newest night of its series
--   night_status: `complete` or `partial`
--   missing: what was expected and is not there
--   asked: models that were asked for or expected: the sum of the seven columns that follow
--   ran: models that ran
--   build_failed: models whose code failed
--   export_failed: models of which no module could be made
--   prepare_failed: models whose module could not be split or evaluated
--   framework_missing: models whose framework is not installed
--   not_run: models that the time of --budget did not reach
--   models_missing: models that were expected and that no run has
SELECT s.night_id, n.name, n.label AS night, n.kind, CASE WHEN n.demo THEN 'demo' ELSE 'real' END AS data,
       s.started, s.series, s.backend, s.arch, s.dtype, s.data_format, s.math_fidelity,
       CASE WHEN s.started = l.started THEN 1 ELSE 0 END AS newest,
       s.status AS night_status, s.missing, s.compiler, s.jaxlib, s.revision,
       TRIM(CASE WHEN s.compiler_changed THEN 'compiler ' ELSE '' END || CASE WHEN s.jaxlib_changed THEN 'jaxlib ' ELSE '' END
            || CASE WHEN s.models_changed THEN 'models' ELSE '' END) AS changed,
       s.asked, s.ran, s.build_failed, s.export_failed, s.prepare_failed, s.framework_missing, s.not_run, s.models_missing
FROM night_series s
JOIN nights n ON n.night_id = s.night_id
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l ON l.series = s.series
