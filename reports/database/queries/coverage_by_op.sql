-- Which ops does each backend support, of which element type: how many are right, fail, or were never tried?
-- Of all ops that stand in any run of the database, by how each was tried last, whichever night that was: `suite:ops` has
-- every op, and what one backend tried another may never have. Left out: ops that could not be split off, and those of
-- compiled programs (ttnn), which are one compiler's own, and runs that have not ended.
WITH lanes AS (
    SELECT DISTINCT backend, arch FROM night_series
), ended AS (
    SELECT run_id, ROW_NUMBER() OVER (ORDER BY started, run_id) AS place FROM runs WHERE outcome <> 'running'
), newest AS (
    SELECT t.backend, t.arch, t.op_id, MAX(r.place) AS place
    FROM op_tests t
    JOIN ended r ON r.run_id = t.run_id
    WHERE t.superseded_by <> t.run_id AND {ending t} NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
    GROUP BY t.backend, t.arch, t.op_id
), tried AS (
    SELECT t.backend, t.arch, t.op_id, {ending t} AS status, t.expected
    FROM newest n
    JOIN ended r ON r.place = n.place
    JOIN op_tests t ON t.run_id = r.run_id AND t.op_id = n.op_id AND t.backend = n.backend AND t.arch = n.arch
    WHERE t.superseded_by <> t.run_id
)
SELECT l.backend, l.arch, o.op_name, o.dtype, SUM(CASE WHEN t.status IN ('success', 'passed') THEN 1 ELSE 0 END) AS supported,
       SUM(CASE WHEN t.status NOT IN ('success', 'passed') AND t.expected = '' THEN 1 ELSE 0 END) AS fails,
       SUM(CASE WHEN t.status NOT IN ('success', 'passed') AND t.expected <> '' THEN 1 ELSE 0 END) AS known_gaps,
       SUM(CASE WHEN t.op_id IS NULL THEN 1 ELSE 0 END) AS never_tried
FROM lanes l
CROSS JOIN ops o
LEFT JOIN tried t ON t.backend = l.backend AND t.arch = l.arch AND t.op_id = o.op_id
WHERE o.unsplittable = '' AND o.op_name NOT LIKE 'ttnn.%'
GROUP BY l.backend, l.arch, o.op_name, o.dtype
ORDER BY l.backend, l.arch, o.op_name, o.dtype
