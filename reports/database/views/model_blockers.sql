-- Each op that keeps a model from being whole in a night: the rows of `opscope readiness`.
--   uses: places of the op in this model
--   label: what it was in the night before, as `opscope diff` says it
--   cluster: the failure's cause
--   message: what the error says
--   depth: the number of the furthest stage, from 1 (split) on
--   owner: the team that looks after it
SELECT f.night_id, f.label_of_night, f.kind, f.started, f.series, f.backend, f.arch, f.data_format, m.model, f.op_id,
       f.op_name, f.op_kind, f.signature, f.dtype, f.rank, u.uses, f.status, f.stage, f.stage_reached,
       CASE f.stage_reached WHEN 'stablehlo-to-ttir' THEN 2 WHEN 'ttir-to-ttnn' THEN 3 WHEN 'ttnn-to-flatbuffer' THEN 4
            WHEN 'compile' THEN 4 WHEN 'run' THEN 5 WHEN 'compare' THEN 6 ELSE 1 END AS depth,
       f.label, f.cluster, f.message, f.known, f.flaky, f.owner, f.run_id, f.artifact, f.repro
FROM night_failures f
JOIN night_models m ON m.night_id = f.night_id AND m.series = f.series
JOIN module_ops u ON u.module_id = m.module_id AND u.op_id = f.op_id
