-- Which ops stand in the most models, and how do they end?
SELECT series, day, standing, backend, arch, data_format, op_name, signature, MIN(status) AS status, COUNT(DISTINCT model) AS models, SUM(uses) AS uses,
       op_id
FROM newest_ops
GROUP BY series, day, standing, backend, arch, data_format, op_id, op_name, signature
ORDER BY models DESC, uses DESC, op_id
LIMIT 50
