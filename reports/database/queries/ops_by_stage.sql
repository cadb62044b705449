-- How far do the ops of each kind get?
SELECT series, day, standing, backend, arch, data_format, op_kind, stage_reached, COUNT(DISTINCT op_id) AS ops, SUM(uses) AS uses
FROM newest_ops
GROUP BY series, day, standing, backend, arch, data_format, op_kind, stage_reached
ORDER BY series, day, op_kind, ops DESC, stage_reached
