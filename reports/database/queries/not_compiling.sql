-- Which ops does the compiler not take, in how many models, and what does it say?
SELECT series, day, standing, backend, arch, data_format, op_name, signature, failed_stage, COUNT(DISTINCT model) AS models, SUM(uses) AS uses,
       MIN(error_message) AS error_message
FROM newest_ops
WHERE status IN ('compile_failed', 'unsplittable')
GROUP BY series, day, standing, backend, arch, data_format, op_name, signature, failed_stage
ORDER BY models DESC, uses DESC, op_name, signature
