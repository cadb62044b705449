-- Which ops come out right for some shapes or types and go wrong for others?
SELECT series, day, standing, backend, arch, data_format, op_name, COUNT(DISTINCT CASE WHEN status IN {RIGHT} THEN op_id END) AS right_ops,
       COUNT(DISTINCT CASE WHEN bad = 1 THEN op_id END) AS bad_ops,
       MIN(CASE WHEN status IN {RIGHT} THEN signature END) AS example_right,
       MIN(CASE WHEN bad = 1 THEN signature END) AS example_bad,
       MIN(CASE WHEN bad = 1 THEN error_message END) AS error_message
FROM newest_ops
GROUP BY series, day, standing, backend, arch, data_format, op_name
HAVING COUNT(DISTINCT CASE WHEN status IN {RIGHT} THEN op_id END) > 0
   AND COUNT(DISTINCT CASE WHEN bad = 1 THEN op_id END) > 0
ORDER BY bad_ops DESC, op_name
