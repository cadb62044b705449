-- What blocks the most models: which errors, by their causes?
SELECT series, day, standing, backend, arch, data_format, cluster, COUNT(DISTINCT model) AS models, COUNT(DISTINCT op_id) AS ops, SUM(uses) AS uses,
       MIN(failed_stage) AS failed_stage, MIN(error_message) AS error_message
FROM newest_ops
WHERE bad = 1
GROUP BY series, day, standing, backend, arch, data_format, cluster
ORDER BY models DESC, uses DESC, cluster
