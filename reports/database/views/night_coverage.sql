-- Per night, model and op family: how many unique ops there are, how many of them were attempted, and how many were right
-- on the device and on the host. Ops that were deselected or not reached, or have no verdict, count as not attempted, and
-- so as not right.
--   ops: unique ops of the model in this family
--   attempted_ops: of these, attempted
--   right_ops: of these, right at the place where an op has to run to count
--   host_ops: of these, right on the host although the night's place is a device
--   bad_ops: of these, gone wrong, expected failures included
--   pass_rate: right_ops / ops
--   uses: uses of the ops in the model
--   attempted_uses: uses of the attempted ops in the model
SELECT c.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, c.series, s.backend, {board s} AS arch, s.data_format, c.model, c.op_kind,
       c.ops, c.attempted_ops, c.right_ops, c.host_ops, c.bad_ops, 1.0 * c.right_ops / c.ops AS pass_rate,
       c.uses, c.attempted_uses, c.right_uses
FROM night_kinds c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
