-- Which ops are the slowest: take the most device cycles over all their uses in all models?
SELECT series, day, standing, backend, arch, data_format, op_name, signature, COUNT(DISTINCT model) AS models, SUM(uses) AS uses, MAX(cycles) AS cycles,
       SUM(cycles * uses) AS cycles_of_all_uses, op_id
FROM newest_ops
WHERE cycles IS NOT NULL
GROUP BY series, day, standing, backend, arch, data_format, op_id, op_name, signature
ORDER BY cycles_of_all_uses DESC, op_id
LIMIT 50
