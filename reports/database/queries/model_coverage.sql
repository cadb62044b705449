-- What share of each model's ops, attempted or not, comes out right on the device?
SELECT backend, arch, data_format, model, COUNT(*) AS ops, SUM(bad) AS bad, SUM(1 - attempted) AS not_attempted,
       SUM(CASE WHEN status IN ('success', 'passed') AND ran_on <> 'host' THEN 1 ELSE 0 END) AS right_ops,
       1.0 * SUM(CASE WHEN status IN ('success', 'passed') AND ran_on <> 'host' THEN 1 ELSE 0 END) / COUNT(*) AS share,
       1.0 * SUM(CASE WHEN status IN ('success', 'passed') AND ran_on <> 'host' THEN uses ELSE 0 END) / NULLIF(SUM(uses), 0)
           AS share_of_uses
FROM newest_ops
GROUP BY backend, arch, data_format, model
ORDER BY backend, arch, data_format, share, model
