-- How far do the ops of each kind get?
SELECT backend, arch, data_format, op_kind, stage_reached, COUNT(DISTINCT op_id) AS ops, SUM(uses) AS uses
FROM newest_ops
GROUP BY backend, arch, data_format, op_kind, stage_reached
ORDER BY backend, arch, data_format, op_kind, ops DESC, stage_reached
