-- Any two nights or runs of a series side by side, op by op: the labels of `opscope diff A B`. Ask for two (`night`, `night_before`):
-- the view has the rows of every pair. Left out: ops that are right in both, and ops that were attempted for the first time
-- and are right. An op is SLOWER by its device cycles alone: measured and compile times need a history, which `diff` reads. An op
-- whose id changed in between is another op here.
--   night: date and time of the later one, in its time zone
--   night_before: date and time of the earlier one
--   place: of `change` in the order of urgency, 1 first
--   before_id: the earlier night
--   uses: how often the op occurs in the models of the later night; of the earlier one if it is not there
--   status_before: how the op ended in the earlier night; empty where it was not in it
--   status_now: how the op ended in the later night; empty where it is not in it
--   cause: the short id of the failure's cause, as `opscope show` takes it; for FIXED, of the one that it had
--   flaky: `flaky` if repeated attempts of either night disagreed
--   pcc_before: correlation with the golden in the earlier night
--   pcc_now: correlation with the golden in the later night
--   cycles_before: device cycles in the earlier night
--   cycles_now: device cycles in the later night
--   numbers: what a PCC-DROP or a SLOWER op had before, and has now
SELECT y.night_id, y.before_id, y.started, y.night, SUBSTR(y.night, 1, 10) AS day, y.night_before, y.series, y.backend, w.board AS arch, w.platform, y.label,
       y.change, {place y.change} AS place,
       COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, o.op_name, y.op_id, o.op_name || ' ' || y.op_id AS op, o.signature,
       (SELECT SUM(u.uses) FROM module_ops u CROSS JOIN night_models m
        WHERE m.module_id = u.module_id AND m.night_id = CASE y.status_now WHEN '' THEN y.before_id ELSE y.night_id END AND m.series = y.series
          AND m.outcome = 'ran' AND u.op_id = y.op_id) AS uses,
       y.status_before, y.status_now, y.failed_stage, SUBSTR(y.cluster, 1, 8) AS cause, y.error_message, y.expected, y.flaky, y.pcc_before, y.pcc_now,
       y.cycles_before, y.cycles_now, CASE y.label WHEN 'SLOWER' THEN y.cycles_before || ' → ' || y.cycles_now || ' cycles' WHEN 'PCC-DROP' THEN 'PCC ' || ROUND(CAST(y.pcc_before AS NUMERIC), 6) || ' → ' || ROUND(CAST(y.pcc_now AS NUMERIC), 6) ELSE '' END AS numbers,
       COALESCE(y.author || ', ' || y.written || ' UTC' || CASE y.until WHEN '' THEN '' ELSE ', until ' || y.until END || ': ' || y.text, '') AS remark
FROM (SELECT v.*, {change v.label, v.expected <> '', v.flaky <> '', v.until >= SUBSTR(v.night, 1, 10)} AS change
FROM (SELECT z.*, x.author, x.written, x.until, x.text,
             CASE WHEN z.turn = 'NEW' AND z.status_before = '' AND NOT EXISTS (
                       SELECT 1 FROM night_models m JOIN module_ops u ON u.module_id = m.module_id
                       JOIN night_models k ON k.night_id = z.before_id AND k.series = z.series AND k.model = m.model
                       WHERE m.night_id = z.night_id AND m.series = z.series AND m.outcome = 'ran' AND u.op_id = z.op_id)
                  THEN 'FIRST' ELSE z.turn END AS label
FROM (
    -- Ops with a test in the later night. SQLite takes tables of a CROSS JOIN in their order: the nights first.
    SELECT s.night_id, b.night_id AS before_id, s.series, s.started, s.backend,
           n.label || ' ' || n.zone AS night, p.label || ' ' || p.zone AS night_before,
           t.op_id, COALESCE(e.status, '') AS status_before, t.status AS status_now,
           {label e t} AS turn,
           CASE WHEN t.status IN {FAILED} THEN COALESCE(t.failed_stage, t.stage_reached)
                WHEN e.status IN {FAILED} THEN COALESCE(e.failed_stage, e.stage_reached) ELSE '' END AS failed_stage,
           CASE WHEN t.status IN {FAILED} THEN COALESCE(t.cause, '')
                WHEN e.status IN {FAILED} THEN COALESCE(e.cause, '') ELSE '' END AS cluster,
           CASE WHEN t.status = 'passed' THEN '' WHEN t.status = 'success' THEN COALESCE(e.error_message, e.crash_kind, '')
                ELSE COALESCE(t.error_message, t.crash_kind, '') END AS error_message,
           CASE WHEN t.status IN {FAILED} THEN t.expected ELSE '' END AS expected,
           CASE WHEN t.flaky OR COALESCE(e.flaky, FALSE) THEN 'flaky' ELSE '' END AS flaky,
           e.pcc AS pcc_before, t.pcc AS pcc_now, e.cycles AS cycles_before, t.cycles AS cycles_now
    FROM nights n
    CROSS JOIN night_series s
    CROSS JOIN night_series b
    CROSS JOIN nights p
    CROSS JOIN op_tests t
    LEFT JOIN op_tests e
      ON e.night_id = b.night_id AND e.series = s.series AND e.op_id = t.op_id AND e.superseded_by = ''
    WHERE s.night_id = n.night_id AND b.series = s.series AND b.started < s.started AND p.night_id = b.night_id
      AND t.night_id = s.night_id AND t.series = s.series AND t.superseded_by = ''
      AND {label e t} NOT IN {QUIET}  -- before anything else of the rows is read
    UNION ALL
    -- Ops without one: no module could be made of them, they were not reached, or only the earlier night has them.
    SELECT s.night_id, b.night_id AS before_id, s.series, s.started, s.backend,
           n.label || ' ' || n.zone AS night, p.label || ' ' || p.zone AS night_before,
           o.op_id, COALESCE(e.status, CASE WHEN NOT {has b o} THEN ''
                    WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END),
           CASE WHEN NOT {has s o} THEN '' WHEN o.unsplittable <> '' THEN 'unsplittable' ELSE 'not_run' END,
           CASE WHEN {has s o} THEN
                    CASE WHEN o.unsplittable = '' THEN 'NEVER-RUN' WHEN e.status IN {FAILED} THEN 'REASON-CHANGED'
                         WHEN e.op_id IS NULL AND {has b o} THEN 'PERSISTING' ELSE 'NEW' END
                WHEN NOT {has b o}
                  OR EXISTS (SELECT 1 FROM night_models m JOIN module_ops u ON u.module_id = m.module_id
                             JOIN night_models k ON k.night_id = s.night_id AND k.series = s.series AND k.model = m.model
                             WHERE m.night_id = b.night_id AND m.series = s.series AND m.outcome = 'ran' AND u.op_id = o.op_id
                               AND k.outcome = 'ran') THEN 'VANISHED' ELSE 'NEVER-RUN' END,
           CASE WHEN o.unsplittable <> '' AND (e.op_id IS NULL OR {has s o}) THEN 'split' WHEN e.status IN {FAILED}
                THEN COALESCE(e.failed_stage, e.stage_reached) ELSE '' END,
           CASE WHEN o.unsplittable <> '' AND (e.op_id IS NULL OR {has s o}) THEN o.cause WHEN e.status IN {FAILED} THEN COALESCE(e.cause, '') ELSE '' END,
           CASE WHEN {has s o} THEN o.unsplittable ELSE '' END, '',
           CASE WHEN COALESCE(e.flaky, FALSE) THEN 'flaky' ELSE '' END, e.pcc, NULL, e.cycles, NULL
    FROM nights n
    CROSS JOIN night_series s
    CROSS JOIN night_series b
    CROSS JOIN nights p
    CROSS JOIN ops o
    LEFT JOIN op_tests e
      ON e.night_id = b.night_id AND e.series = s.series AND e.op_id = o.op_id AND e.superseded_by = ''
    WHERE s.night_id = n.night_id AND b.series = s.series AND b.started < s.started AND p.night_id = b.night_id
      AND NOT EXISTS (SELECT 1 FROM op_tests t WHERE t.night_id = s.night_id AND t.series = s.series AND t.op_id = o.op_id
                      AND t.superseded_by = '')
      AND (e.op_id IS NOT NULL OR {has b o} OR {has s o})
) z
LEFT JOIN notes x ON x.cause = z.cluster
) v) y
JOIN night_dates w ON w.night_id = y.night_id AND w.series = y.series
JOIN ops o ON o.op_id = y.op_id
WHERE y.label NOT IN {QUIET}
