-- What share of each model's ops, attempted or not, comes out right where it has to run: on the device, if its night used one?
WITH placed AS (
    SELECT o.*, CASE WHEN o.status IN {RIGHT} AND (o.ran_on NOT IN ('host', 'none') OR p.place = 'host')
                     THEN 1 ELSE 0 END AS is_right
    FROM newest_ops o
    JOIN night_places p ON p.night_id = o.night_id AND p.series = o.series
)
SELECT backend, arch, data_format, model, COUNT(*) AS ops, SUM(bad) AS bad, SUM(1 - attempted) AS not_attempted,
       SUM(is_right) AS right_ops, 1.0 * SUM(is_right) / COUNT(*) AS share,
       1.0 * SUM(is_right * uses) / NULLIF(SUM(uses), 0) AS share_of_uses
FROM placed
GROUP BY backend, arch, data_format, model
ORDER BY backend, arch, data_format, share, model
