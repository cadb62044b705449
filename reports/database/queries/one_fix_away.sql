-- Which models, of whose ops all were attempted, does a single cause keep from being whole?
SELECT series, day, standing, backend, arch, data_format, model, MIN(CASE WHEN bad = 1 THEN cluster END) AS cluster, SUM(bad) AS ops,
       SUM(bad * uses) AS uses, MIN(CASE WHEN bad = 1 THEN error_message END) AS error_message
FROM newest_ops
GROUP BY series, day, standing, backend, arch, data_format, model
HAVING COUNT(DISTINCT CASE WHEN bad = 1 THEN COALESCE(cluster, status) END) = 1 AND SUM(1 - attempted) = 0
ORDER BY ops, model
