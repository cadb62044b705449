-- Which ops go wrong, for which cause (with --cause ID, for one of them)?
SELECT series, day, standing, backend, arch, data_format, cluster AS cause, op_name, op_id, signature, status, failed_stage, COUNT(DISTINCT model) AS models,
       SUM(uses) AS uses, MIN(error_message) AS error_message
FROM newest_ops
WHERE bad = 1
GROUP BY series, day, standing, backend, arch, data_format, cluster, op_name, op_id, signature, status, failed_stage
ORDER BY models DESC, uses DESC, cause, op_id
