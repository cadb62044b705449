-- How close each model is to running whole, night by night. A model that was expected and is missing has a row too.
--   ops: its unique ops = right_ops + bad_ops + not_attempted
--   right_ops: ops that are right, on the device, on the host, or by a compiler alone
--   bad_ops: ops that went wrong
--   whole: 1 if the model ran and all of its ops are right, and so it is as one program, if it ran as one (which spares its ops)
--   readiness: right_ops / ops
--   readiness_of_uses: right_uses / uses
--   right_before: of the ops attempted in both nights, those that were right in the previous night, where an op has to run to count
--   right_now: of the same ops, those that are right now
--   nights_ago: 0 for the newest night of its series that has the model, below 0 for one that is dated later than now
--   not_attempted: ops that were deselected or not reached, or have no verdict
SELECT m.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, m.series, s.backend, {board s} AS arch, s.data_format, m.model,
       (SELECT a.framework FROM models a WHERE a.run_id = m.run_id AND a.model = m.model) AS framework, m.outcome, m.reason,
       m.run_id, m.ops, m.attempted_ops, m.right_ops, m.bad_ops, m.ops - m.attempted_ops AS not_attempted, m.flaky_ops,
       m.uses, m.right_uses, m.bad_uses,
       CASE WHEN m.outcome = 'ran' AND m.bad_ops = 0 AND COALESCE(g.right_whole, CASE WHEN m.right_ops = m.ops THEN 1 ELSE 0 END) = 1
            THEN 1 ELSE 0 END AS whole,
       CASE WHEN m.ops > 0 THEN 1.0 * m.right_ops / m.ops END AS readiness,
       CASE WHEN m.uses > 0 THEN 1.0 * m.right_uses / m.uses END AS readiness_of_uses,
       p.right_before, p.right_now,
       ROW_NUMBER() OVER (PARTITION BY m.series, n.kind, m.model ORDER BY s.started DESC, m.night_id DESC) - 1
       - COUNT(CASE WHEN s.night_id IN (SELECT night_id FROM nights_ahead) THEN 1 END) OVER (PARTITION BY m.series, n.kind, m.model) AS nights_ago
FROM night_models m
JOIN night_series s ON s.night_id = m.night_id AND s.series = m.series
JOIN nights n ON n.night_id = m.night_id
LEFT JOIN night_programs g ON g.night_id = m.night_id AND g.series = m.series AND g.model = m.model
LEFT JOIN (
    SELECT q.night_id, q.series, q.model, SUM(q.right_before) AS right_before, SUM(q.right_now) AS right_now
    FROM night_pairs q
    JOIN night_places l ON l.night_id = q.night_id AND l.series = q.series
    WHERE (q.ran_on NOT IN ('host', 'none') OR l.place = 'host') AND q.model <> ''
    GROUP BY q.night_id, q.series, q.model
) p ON p.night_id = m.night_id AND p.series = m.series AND p.model = m.model
