-- Which ops run and give wrong numbers?
SELECT series, day, standing, backend, arch, data_format, op_name, signature, MIN(pcc) AS pcc, MAX(z_max) AS z_max,
       MIN(question) AS question, MIN(hypothesis) AS hypothesis, MIN(z_place) AS z_place, COUNT(DISTINCT model) AS models, SUM(uses) AS uses,
       MIN(error_message) AS error_message, MIN(repro) AS repro
FROM newest_ops
WHERE status = 'wrong_result'
GROUP BY series, day, standing, backend, arch, data_format, op_id, op_name, signature
ORDER BY models DESC, uses DESC, op_id
