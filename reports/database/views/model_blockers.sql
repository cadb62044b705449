-- Each op that keeps a model from being whole in a night: the rows of `opscope readiness`.
--   depth: the number of the furthest stage, starting with 1 (split)
SELECT f.night_id, f.night, f.day, f.kind, f.started, f.series, f.backend, f.arch, f.data_format, m.model, f.op_id,
       f.op_name, f.op_kind, f.signature, f.dtype, f.rank, u.uses, f.status, f.failed_stage, f.stage_reached,
       COALESCE(d.depth, 1) AS depth,
       f.label, f.cluster, f.error_message, f.expected, f.flaky, f.owner, f.run_id, f.artifact, f.repro
FROM night_failures f
JOIN night_models m ON m.night_id = f.night_id AND m.series = f.series
JOIN module_ops u ON u.module_id = m.module_id AND u.op_id = f.op_id
LEFT JOIN night_stages d ON d.night_id = f.night_id AND d.series = f.series AND d.stage = f.stage_reached
