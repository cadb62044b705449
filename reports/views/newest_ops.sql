-- Where each model stands: the ops of its newest run on each backend and board, one row per model and op. `uses` counts
-- its places in that model; an op that could not be split off has the status `unsplittable`.
WITH ranked AS (
    SELECT r.run_id, r.backend, r.arch, r.started, m.model,
           ROW_NUMBER() OVER (PARTITION BY r.backend, r.arch, m.model ORDER BY r.started DESC, r.run_id DESC) AS age
    FROM runs r
    JOIN modules m ON m.run_id = r.run_id
    WHERE r.outcome <> 'running'
), placed AS (
    SELECT n.run_id, n.backend, n.arch, n.started, n.model, u.op_id, COUNT(*) AS uses
    FROM ranked n
    JOIN uses u ON u.run_id = n.run_id AND u.model = n.model
    WHERE n.age = 1
    GROUP BY n.run_id, n.backend, n.arch, n.started, n.model, u.op_id
)
SELECT p.run_id, p.backend, p.arch, p.started, p.model, p.op_id, o.op_name,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.signature, p.uses,
       COALESCE(t.status, 'unsplittable') AS status,
       COALESCE(t.stage_reached, 'split') AS stage_reached,
       COALESCE(t.failed_stage, CASE WHEN t.op_id IS NULL THEN 'split' END) AS failed_stage,
       COALESCE(t.error_signature, t.crash_kind, CASE WHEN t.op_id IS NULL THEN 'unsplittable' END) AS cause,
       COALESCE(t.error_message, t.crash_kind, CASE WHEN t.op_id IS NULL THEN o.unsplittable END) AS error,
       COALESCE(t.expected, '') AS expected,
       CASE WHEN t.op_id IS NULL
              OR t.status IN ('compile_failed', 'run_failed', 'golden_failed', 'no_golden', 'timeout', 'crashed')
            THEN 1 ELSE 0 END AS bad,
       CASE WHEN t.status IN ('stopped', 'skipped', 'not_run') THEN 0 ELSE 1 END AS attempted,
       t.pcc, t.cycles, t.l1_peak_bytes, t.dram_peak_bytes, COALESCE(t.ran_on, 'none') AS ran_on, t.flaky, t.repro
FROM placed p
JOIN ops o ON o.op_id = p.op_id
LEFT JOIN op_tests t ON t.run_id = p.run_id AND t.op_id = p.op_id AND t.backend = p.backend
