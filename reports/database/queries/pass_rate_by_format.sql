-- What share of the ops comes out right in each number format, on each backend and board (bf16 is Float16_b)?
-- Each op counts once, wherever it ran. `default` is what runs without --data-format: the module's own types. `both_ops` are those
-- that were attempted in the default format too, with all other options the same, `right_by_default` those of them that were right there.
WITH ops_once AS (
    SELECT series, day, standing, backend, arch, data_format, TRIM(REPLACE(' ' || series || ' ', ' ' || data_format || ' ', ' ')) AS others,
           op_id, MAX(attempted) AS attempted, MAX(CASE WHEN status IN {RIGHT} THEN 1 ELSE 0 END) AS is_right
    FROM newest_ops
    GROUP BY series, day, standing, backend, arch, data_format, op_id
), with_default AS (  -- by a window: PostgreSQL joins two large tables that a query makes row by row
    SELECT series, day, standing, backend, arch, data_format, attempted, is_right,
           MAX(CASE WHEN data_format = 'default' THEN attempted ELSE 0 END) OVER of_op AS attempted_by_default,
           MAX(CASE WHEN data_format = 'default' THEN is_right ELSE 0 END) OVER of_op AS right_by_default
    FROM ops_once WINDOW of_op AS (PARTITION BY others, op_id)
), asked AS (
    SELECT series, COUNT(DISTINCT model) AS models FROM newest_ops GROUP BY series
)
SELECT o.series, o.day, o.standing, o.backend, o.arch, o.data_format, a.models, COUNT(*) AS ops, SUM(o.attempted) AS attempted_ops,
       SUM(o.is_right) AS right_ops, 1.0 * SUM(o.is_right) / NULLIF(SUM(o.attempted), 0) AS pass_rate,
       SUM(CASE WHEN o.attempted = 1 AND o.attempted_by_default = 1 THEN 1 ELSE 0 END) AS both_ops,
       SUM(CASE WHEN o.attempted = 1 AND o.attempted_by_default = 1 THEN o.right_by_default ELSE 0 END) AS right_by_default
FROM asked a
JOIN with_default o ON o.series = a.series
GROUP BY o.series, o.day, o.standing, o.backend, o.arch, o.data_format, a.models
ORDER BY o.series, o.day
