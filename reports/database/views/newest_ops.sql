-- The ops of each model's newest night on each backend and board in each number format, one row per model and op. A run that belongs to no night
-- counts as a night. `uses` counts the op in that model; an op that could not be split off has the status `unsplittable`.
-- Left out: models that did not become a module, runs that have not ended, and nights of releases.
--   cluster: the cause of its failure (glossary)
--   bad: 1 if it went wrong, expected failures included
--   attempted: 0 if it was deselected or not reached, or has no verdict
WITH ranked AS (
    SELECT m.run_id, m.night_id, m.series, s.backend, s.arch, s.data_format, s.started, m.model, m.module_id,
           ROW_NUMBER() OVER (PARTITION BY s.backend, s.arch, s.data_format, m.model
                              ORDER BY s.started DESC, m.night_id DESC, m.series) AS age
    FROM night_models m
    JOIN night_series s ON s.night_id = m.night_id AND s.series = m.series
    JOIN runs r ON r.run_id = m.run_id
    JOIN nights n ON n.night_id = m.night_id AND n.axis = 'time'
    WHERE r.outcome <> 'running' AND m.outcome = 'ran'
)
SELECT n.run_id, n.night_id, n.series, n.backend, n.arch, n.data_format, n.started, n.model,
       -- A single value, not a join: a query that does not ask for it does not look for it.
       (SELECT a.framework FROM models a WHERE a.run_id = n.run_id AND a.model = n.model) AS framework, u.op_id, o.op_name,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.signature, o.dtype, o.rank, u.uses,
       COALESCE({ending t}, CASE WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END) AS status,
       COALESCE(t.stage_reached, 'split') AS stage_reached,
       COALESCE(t.failed_stage, CASE WHEN t.op_id IS NULL AND o.unsplittable <> '' THEN 'split' END) AS failed_stage,
       COALESCE(t.cause, CASE WHEN t.op_id IS NULL AND o.unsplittable <> '' THEN o.cause END) AS cluster,
       COALESCE(t.error_message, t.crash_kind, CASE WHEN t.op_id IS NULL AND o.unsplittable <> '' THEN o.unsplittable END)
           AS error_message,
       COALESCE(t.expected, '') AS expected,
       CASE WHEN (t.op_id IS NULL AND o.unsplittable <> '')
              OR t.status IN {FAILED}
            THEN 1 ELSE 0 END AS bad,
       CASE WHEN (t.op_id IS NULL AND o.unsplittable = '') OR {ending t} IN {NOT_ATTEMPTED}
            THEN 0 ELSE 1 END AS attempted,
       t.pcc, t.z_max, t.z_place, t.question, t.hypothesis, t.cycles, t.l1_peak_bytes, t.dram_peak_bytes, COALESCE(t.ran_on, 'none') AS ran_on, t.flaky, t.repro
FROM ranked n
JOIN module_ops u ON u.module_id = n.module_id
JOIN ops o ON o.op_id = u.op_id
LEFT JOIN op_tests t
  ON t.night_id = n.night_id AND t.series = n.series AND t.op_id = u.op_id AND t.superseded_by = ''
WHERE n.age = 1
