-- Which ops did not run on the device but on the host?
SELECT backend, arch, data_format, op_name, signature, ran_on, COUNT(DISTINCT model) AS models, SUM(uses) AS uses
FROM newest_ops
WHERE ran_on IN ('host', 'mixed')
GROUP BY backend, arch, data_format, op_id, op_name, signature, ran_on
ORDER BY models DESC, uses DESC, op_name, signature
