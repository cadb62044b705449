-- Which models does a single cause keep from being whole?
SELECT backend, arch, model, MIN(cause) AS cause, COUNT(*) AS ops, SUM(uses) AS uses, MIN(error) AS error
FROM newest_ops
WHERE bad = 1
GROUP BY backend, arch, model
HAVING COUNT(DISTINCT COALESCE(cause, status)) = 1
ORDER BY ops, model
