-- Which ops of nights on a device did not run there but on the host?
SELECT o.series, o.day, o.standing, o.backend, o.arch, o.data_format, o.op_name, o.signature, o.ran_on, COUNT(DISTINCT o.model) AS models, SUM(o.uses) AS uses
FROM newest_ops o
JOIN night_places p ON p.night_id = o.night_id AND p.series = o.series AND p.place = 'device'
WHERE o.ran_on IN ('host', 'mixed')
GROUP BY o.series, o.day, o.standing, o.backend, o.arch, o.data_format, o.op_id, o.op_name, o.signature, o.ran_on
ORDER BY models DESC, uses DESC, o.op_name, o.signature
