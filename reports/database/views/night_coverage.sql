-- Per night, model and kind of op: how many unique ops were attempted, and how many came out right on the device and on
-- the host. Left out of the denominator: ops that were stopped, deselected or not reached.
--   attempted_ops: the denominator: unique ops of the model that were attempted
--   right_ops: of these, right where the lane runs
--   host_ops: of these, right on the host though the lane is a device's
--   bad_ops: of these, gone wrong, known limitations among them
--   coverage: right_ops / attempted_ops
--   attempted_uses: places of the attempted ops in the model
--   right_uses: places of those right where the lane runs
SELECT c.night_id, n.label, n.kind, s.started, c.series, s.backend, s.arch, s.data_format, c.model, c.op_kind,
       c.attempted_ops, c.right_ops, c.host_ops, c.bad_ops, 1.0 * c.right_ops / c.attempted_ops AS coverage,
       c.attempted_uses, c.right_uses
FROM night_kinds c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
