-- Which element types are supported: how many ops that touch each come out right?
WITH dtypes AS (
    SELECT 'f32' AS dtype UNION ALL SELECT 'f64' UNION ALL SELECT 'f16' UNION ALL SELECT 'bf16'
    UNION ALL SELECT 'i1' UNION ALL SELECT 'i8' UNION ALL SELECT 'i16' UNION ALL SELECT 'i32' UNION ALL SELECT 'i64'
    UNION ALL SELECT 'ui8' UNION ALL SELECT 'ui16' UNION ALL SELECT 'ui32' UNION ALL SELECT 'ui64'
    UNION ALL SELECT 'complex<f32>' UNION ALL SELECT 'complex<f64>'
), ops_once AS (
    SELECT series, day, standing, backend, arch, data_format, op_id, signature, MAX(bad) AS bad, MAX(attempted) AS attempted,
           MAX(CASE WHEN status IN {RIGHT} THEN 1 ELSE 0 END) AS is_right
    FROM newest_ops
    GROUP BY series, day, standing, backend, arch, data_format, op_id, signature
)
SELECT o.series, o.day, o.standing, o.backend, o.arch, o.data_format, d.dtype, COUNT(*) AS ops, SUM(o.attempted) AS attempted, SUM(o.is_right) AS right_ops, SUM(o.bad) AS bad
FROM ops_once o
JOIN dtypes d ON ' ' || o.signature LIKE '% ' || d.dtype || '[%'
GROUP BY o.series, o.day, o.standing, o.backend, o.arch, o.data_format, d.dtype
ORDER BY o.series, o.day, ops DESC, d.dtype
