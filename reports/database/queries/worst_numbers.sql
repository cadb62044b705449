-- Which ops pass with the least exact numbers?
SELECT backend, arch, op_name, signature, MIN(pcc) AS pcc, COUNT(DISTINCT model) AS models, SUM(uses) AS uses, op_id
FROM newest_ops
WHERE status = 'success' AND pcc IS NOT NULL
GROUP BY backend, arch, op_id, op_name, signature
ORDER BY pcc, op_id
LIMIT 50
