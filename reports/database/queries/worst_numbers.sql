-- Which ops pass with the least exact numbers?
SELECT series, day, standing, backend, arch, data_format, op_name, signature, MAX(z_max) AS z_max, MIN(pcc) AS pcc,
       MIN(z_place) AS z_place, COUNT(DISTINCT model) AS models, SUM(uses) AS uses, op_id
FROM newest_ops
WHERE status = 'success' AND (z_max IS NOT NULL OR pcc IS NOT NULL)
GROUP BY series, day, standing, backend, arch, data_format, op_id, op_name, signature
ORDER BY COALESCE(MAX(z_max), 0) DESC, pcc, op_id
LIMIT 50
