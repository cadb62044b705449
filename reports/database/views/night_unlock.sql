-- The unlock curve of a night: after so many fixes, the best first, so many models are whole.
--   fixes: fixes made so far; 0 is the night as it is
--   cluster: the cause that the last of them removes
--   whole: models that nothing holds back then
--   models: models that ran
--   unlocked: models that this fix makes whole
--   share: whole / models
SELECT u.night_id, n.label, n.kind, s.started, u.series, s.backend, s.arch, s.data_format, u.fixes, u.cluster, u.whole,
       u.models, u.unlocked, CASE WHEN u.models > 0 THEN 1.0 * u.whole / u.models END AS share,
       COALESCE(f.message, '') AS message
FROM night_curve u
JOIN night_series s ON s.night_id = u.night_id AND s.series = u.series
JOIN nights n ON n.night_id = u.night_id
LEFT JOIN night_fixes f ON f.night_id = u.night_id AND f.series = u.series AND f.cluster = u.cluster
