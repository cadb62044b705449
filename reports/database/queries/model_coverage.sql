-- What share of each model's ops, attempted or not, comes out right where it has to run: on the device, if its night used one?
-- A model that the newest night of its series does not have any more stands there once, as `gone` since its last day.
WITH placed AS (
    SELECT o.*, CASE WHEN o.status IN {RIGHT} AND (o.ran_on NOT IN ('host', 'none') OR p.place = 'host')
                     THEN 1 ELSE 0 END AS is_right
    FROM newest_ops o
    JOIN night_places p ON p.night_id = o.night_id AND p.series = o.series
)
SELECT series, day, standing, backend, arch, data_format, model, COUNT(*) AS ops, SUM(bad) AS bad, SUM(1 - attempted) AS not_attempted,
       SUM(is_right) AS right_ops, 1.0 * SUM(is_right) / COUNT(*) AS share,
       1.0 * SUM(is_right * uses) / NULLIF(SUM(uses), 0) AS share_of_uses
FROM placed
GROUP BY series, day, standing, backend, arch, data_format, model
UNION ALL
SELECT m.series, MAX(SUBSTR(n.label, 1, 10)), 'gone', s.backend, {board s} AS arch, s.data_format, m.model, NULL, NULL, NULL, NULL, NULL, NULL
FROM night_models m
JOIN night_series s ON s.night_id = m.night_id AND s.series = m.series
JOIN nights n ON n.night_id = m.night_id AND n.kind = 'night'
JOIN night_dates w ON w.series = m.series AND w.newest = 1
WHERE m.outcome = 'ran'
  AND NOT EXISTS (SELECT 1 FROM night_models k WHERE k.night_id = w.night_id AND k.series = m.series AND k.model = m.model)
GROUP BY m.series, s.backend, {board s}, s.data_format, m.model
ORDER BY series, standing DESC, share, model
