-- What share of the ops of each framework's models comes out right?
-- Each op counts once for each framework that has it, wherever it ran; `host_ops` of the right ones ran on the host.
WITH ops_once AS (
    SELECT series, day, standing, backend, arch, data_format, framework, op_id, MAX(attempted) AS attempted,
           MAX(CASE WHEN status IN {RIGHT} THEN 1 ELSE 0 END) AS is_right,
           MAX(CASE WHEN status IN {RIGHT} AND ran_on = 'host' THEN 1 ELSE 0 END) AS on_host
    FROM newest_ops
    GROUP BY series, day, standing, backend, arch, data_format, framework, op_id
), asked AS (
    SELECT series, day, standing, backend, arch, data_format, framework, COUNT(DISTINCT model) AS models
    FROM newest_ops
    GROUP BY series, day, standing, backend, arch, data_format, framework
)
SELECT a.series, a.day, a.standing, a.backend, a.arch, a.data_format, a.framework, a.models, COUNT(*) AS ops, SUM(o.attempted) AS attempted_ops,
       SUM(o.is_right) AS right_ops, SUM(o.on_host) AS host_ops, 1.0 * SUM(o.is_right) / NULLIF(SUM(o.attempted), 0) AS pass_rate
FROM asked a
JOIN ops_once o ON o.series = a.series AND o.day = a.day AND o.framework = a.framework
GROUP BY a.series, a.day, a.standing, a.backend, a.arch, a.data_format, a.framework, a.models
ORDER BY a.series, a.day, a.framework
