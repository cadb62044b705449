-- What do the expected failures cost, in ops, uses and models?
SELECT series, day, standing, backend, arch, data_format, expected AS limitation, COUNT(DISTINCT op_id) AS ops, COUNT(DISTINCT model) AS models,
       SUM(uses) AS uses
FROM newest_ops
WHERE expected <> '' AND bad = 1
GROUP BY series, day, standing, backend, arch, data_format, expected
ORDER BY models DESC, uses DESC, limitation
