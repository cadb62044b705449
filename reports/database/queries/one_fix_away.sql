-- Which models does a single cause keep from being whole?
SELECT backend, arch, model, MIN(cluster) AS cluster, COUNT(*) AS ops, SUM(uses) AS uses, MIN(error_message) AS error_message
FROM newest_ops
WHERE bad = 1
GROUP BY backend, arch, model
HAVING COUNT(DISTINCT COALESCE(cluster, status)) = 1
ORDER BY ops, model
