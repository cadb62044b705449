-- Per night, model and op name: the furthest stage that its ops passed, and how they ended. The row of model `all models`
-- counts each unique op once, with its uses in all of them: never add it to the others.
--   model: the model, or `all models`
--   stage_reached: the last stage that the ops passed
--   step: the number of that stage, from 1 (split) on, to sort by
--   ops: unique ops
--   uses: their places
--   flaky_ops: of the ops, those whose repeated attempts disagreed
--   cycles: device cycles of all uses, one after another
--   compile_seconds: what compiling all of the ops took
SELECT c.night_id, n.label, n.kind, s.started, c.series, s.backend, s.arch, s.data_format,
       CASE WHEN c.model = '' THEN 'all models' ELSE c.model END AS model, c.op_kind, c.op_name, c.stage_reached,
       CASE c.stage_reached WHEN 'split' THEN 1 WHEN 'stablehlo-to-ttir' THEN 2 WHEN 'ttir-to-ttnn' THEN 3
            WHEN 'ttnn-to-flatbuffer' THEN 4 WHEN 'compile' THEN 4 WHEN 'run' THEN 5 WHEN 'compare' THEN 6 ELSE 0 END
           AS step,
       c.status, c.ran_on, c.known, c.ops, c.uses, c.flaky_ops, c.cycles, c.compile_seconds
FROM night_counts c
JOIN night_series s ON s.night_id = c.night_id AND s.series = c.series
JOIN nights n ON n.night_id = c.night_id
