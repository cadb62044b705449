-- The ops of the newest complete night of each series, one row per model and op. A series without nights has those of each model's
-- newest run, one without a complete night those of its newest night. `uses` counts the op in that model; an op that could not be
-- split off has the status `unsplittable`. Left out: models that this night does not have (`model_coverage` names them), runs that
-- have not ended, nights of releases, and those dated later than now.
--   day: the date of that night, in its time zone; of runs the date of the newest
--   standing: `newest`, `older` if a newer night of the series is partial, `partial` if it has no complete one, or `stopped`
WITH placed AS (
    SELECT s.night_id, s.series, s.backend, {board s} AS arch, s.data_format, s.started, s.status, SUBSTR(n.label, 1, 10) AS day,
           MAX(CASE n.kind WHEN 'night' THEN 1 ELSE 0 END) OVER of_series AS has_nights, MAX(SUBSTR(n.label, 1, 10)) OVER of_series AS last_day,
           ROW_NUMBER() OVER (PARTITION BY s.series ORDER BY CASE n.kind WHEN 'night' THEN 0 ELSE 1 END,
                              CASE s.status WHEN 'complete' THEN 0 ELSE 1 END, s.started DESC, s.night_id DESC) AS place
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id AND n.axis = 'time'
    WHERE s.night_id NOT IN (SELECT night_id FROM nights_ahead)
    WINDOW of_series AS (PARTITION BY s.series)
), ranked AS (
    SELECT m.run_id, p.night_id, p.series, p.backend, p.arch, p.data_format, p.started, CASE p.has_nights WHEN 1 THEN p.day ELSE p.last_day END AS day, m.model, m.module_id,
           CASE WHEN w.stopped = 1 THEN 'stopped' WHEN p.has_nights = 1 AND p.status <> 'complete' THEN 'partial'
                WHEN p.has_nights = 1 AND w.night_id <> p.night_id THEN 'older' ELSE 'newest' END AS standing,
           ROW_NUMBER() OVER (PARTITION BY p.series, m.model ORDER BY p.place) AS age
    FROM placed p
    JOIN night_dates w ON w.series = p.series AND w.newest = 1
    JOIN night_models m ON m.night_id = p.night_id AND m.series = p.series AND m.outcome = 'ran'
    JOIN runs r ON r.run_id = m.run_id AND r.outcome <> 'running'
    WHERE p.place = 1 OR p.has_nights = 0
)
SELECT n.run_id, n.night_id, n.series, n.backend, n.arch, n.data_format, n.started, n.day, n.standing, n.model,
       -- A single value, not a join: a query that does not ask for it does not look for it.
       (SELECT a.framework FROM models a WHERE a.run_id = n.run_id AND a.model = n.model) AS framework, u.op_id, o.op_name,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.signature, o.dtype, o.rank, u.uses,
       COALESCE(t.status, CASE WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END) AS status,
       COALESCE(t.stage_reached, 'split') AS stage_reached,
       COALESCE(t.failed_stage, CASE WHEN t.op_id IS NULL AND o.unsplittable <> '' THEN 'split' END) AS failed_stage,
       COALESCE(t.cause, CASE WHEN t.op_id IS NULL AND o.unsplittable <> '' THEN o.cause END) AS cluster,
       COALESCE(t.error_message, t.crash_kind, CASE WHEN t.op_id IS NULL AND o.unsplittable <> '' THEN o.unsplittable END)
           AS error_message,
       COALESCE(t.expected, '') AS expected,
       CASE WHEN (t.op_id IS NULL AND o.unsplittable <> '')
              OR t.status IN {FAILED}
            THEN 1 ELSE 0 END AS bad,
       CASE WHEN (t.op_id IS NULL AND o.unsplittable = '') OR t.status IN {NOT_ATTEMPTED}
            THEN 0 ELSE 1 END AS attempted,
       t.pcc, t.z_max, t.z_place, t.question, t.hypothesis, t.cycles, t.l1_peak_bytes, t.dram_peak_bytes, COALESCE(t.ran_on, 'none') AS ran_on, t.flaky, t.repro
FROM ranked n
JOIN module_ops u ON u.module_id = n.module_id
JOIN ops o ON o.op_id = u.op_id
LEFT JOIN op_tests t
  ON t.night_id = n.night_id AND t.series = n.series AND t.op_id = u.op_id AND t.superseded_by = ''
WHERE n.age = 1
