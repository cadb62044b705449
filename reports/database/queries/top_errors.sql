-- Which errors hold back the most models?
SELECT backend, arch, cause, COUNT(DISTINCT model) AS models, COUNT(DISTINCT op_id) AS ops, SUM(uses) AS uses,
       MIN(failed_stage) AS failed_stage, MIN(error) AS error
FROM newest_ops
WHERE bad = 1
GROUP BY backend, arch, cause
ORDER BY models DESC, uses DESC, cause
