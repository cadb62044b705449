-- Which ops does each backend support, of which element type: how many are right, fail, or were never tried?
-- Of all ops that stand in any run of the database, by how each was tried last, whichever night that was: `suite:ops` has
-- every op, and what one backend tried another may never have. Left out: ops that could not be split off, and those of
-- compiled programs (ttnn), which are one compiler's own, and runs that have not ended.
WITH lanes AS (
    SELECT DISTINCT backend, arch FROM night_series
), tried AS (
    SELECT t.backend, t.arch, t.op_id, {ending t} AS status, t.expected,
           ROW_NUMBER() OVER (PARTITION BY t.backend, t.arch, t.op_id ORDER BY r.started DESC, t.run_id DESC) AS age
    FROM op_tests t
    JOIN runs r ON r.run_id = t.run_id
    WHERE r.outcome <> 'running' AND t.superseded_by <> t.run_id
      AND {ending t} NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
)
SELECT l.backend, l.arch, o.op_name, o.dtype, SUM(CASE WHEN t.status IN ('success', 'passed') THEN 1 ELSE 0 END) AS supported,
       SUM(CASE WHEN t.status NOT IN ('success', 'passed') AND t.expected = '' THEN 1 ELSE 0 END) AS fails,
       SUM(CASE WHEN t.status NOT IN ('success', 'passed') AND t.expected <> '' THEN 1 ELSE 0 END) AS known_gaps,
       SUM(CASE WHEN t.op_id IS NULL THEN 1 ELSE 0 END) AS never_tried
FROM lanes l
CROSS JOIN ops o
LEFT JOIN tried t ON t.backend = l.backend AND t.arch = l.arch AND t.op_id = o.op_id AND t.age = 1
WHERE o.unsplittable = '' AND o.op_name NOT LIKE 'ttnn.%'
GROUP BY l.backend, l.arch, o.op_name, o.dtype
ORDER BY l.backend, l.arch, o.op_name, o.dtype
