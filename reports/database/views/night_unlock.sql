-- The unlock curve of a night: how many models are whole after each fix, in the order that completes models fastest.
--   cluster: the cause that the last of them removes
--   whole: models that nothing holds back then
--   share: whole / all_models
SELECT u.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, u.series, s.backend, {board s} AS arch, s.data_format, u.fixes, u.cluster, u.whole,
       u.models AS all_models, u.unlocked, CASE WHEN u.models > 0 THEN 1.0 * u.whole / u.models END AS share,
       COALESCE(f.message, '') AS error_message
FROM night_curve u
JOIN night_series s ON s.night_id = u.night_id AND s.series = u.series
JOIN nights n ON n.night_id = u.night_id
LEFT JOIN night_fixes f ON f.night_id = u.night_id AND f.series = u.series AND f.cluster = u.cluster
