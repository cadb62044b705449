-- Which ops does each series support, and of which element type: how many are right, fail, or were never tried?
-- Of all ops that stand in any run of the database, by how each was tried last, whichever night that was: `suite:ops` has
-- every op, and what one backend tried another may never have. Left out: ops that could not be split off, and those of
-- compiled programs (ttnn), which are one compiler's own, and runs that have not ended.
WITH lanes AS (
    SELECT s.series, MAX(SUBSTR(n.label, 1, 10)) AS day, CASE MAX(w.stopped) WHEN 1 THEN 'stopped' ELSE 'newest' END AS standing,
           s.backend, {board s} AS arch, s.data_format
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id
    LEFT JOIN night_dates w ON w.night_id = s.night_id AND w.series = s.series
    GROUP BY s.series, s.backend, {board s}, s.data_format
), ended AS (
    SELECT run_id, ROW_NUMBER() OVER (ORDER BY started, run_id) AS place FROM runs WHERE outcome <> 'running'
), newest AS (  -- four times the place of the newest run that tried it, and how it ended there
    SELECT t.series, t.op_id,
           MAX(4 * r.place + CASE WHEN t.status IN {RIGHT} THEN 2 WHEN t.expected <> '' THEN 1 ELSE 0 END) AS last
    FROM op_tests t
    JOIN ended r ON r.run_id = t.run_id
    WHERE t.superseded_by <> t.run_id AND t.status NOT IN {NOT_ATTEMPTED}
    GROUP BY t.op_id, t.series  -- what differs most first
), tried AS (
    SELECT n.series, o.op_name, o.dtype, COUNT(*) AS ops,
           SUM(CASE n.last % 4 WHEN 2 THEN 1 ELSE 0 END) AS supported,
           SUM(CASE n.last % 4 WHEN 0 THEN 1 ELSE 0 END) AS fails,
           SUM(CASE n.last % 4 WHEN 1 THEN 1 ELSE 0 END) AS known_gaps
    FROM newest n
    JOIN ops o ON o.op_id = n.op_id
    WHERE o.unsplittable = ''
    GROUP BY n.series, o.op_name, o.dtype
), asked AS (  -- counted before it is joined: PostgreSQL joins two large tables that a query makes row by row
    SELECT op_name, dtype, COUNT(*) AS ops FROM ops
    WHERE unsplittable = '' AND op_name NOT LIKE 'ttnn.%'
    GROUP BY op_name, dtype
)
SELECT l.series, l.day, l.standing, l.backend, l.arch, l.data_format, a.op_name, a.dtype, COALESCE(t.supported, 0) AS supported, COALESCE(t.fails, 0) AS fails,
       COALESCE(t.known_gaps, 0) AS known_gaps, a.ops - COALESCE(t.ops, 0) AS never_tried
FROM lanes l
CROSS JOIN asked a
LEFT JOIN tried t ON t.series = l.series AND t.op_name = a.op_name AND t.dtype = a.dtype
ORDER BY l.series, a.op_name, a.dtype
