-- Where each night of a series ran: what "right" means in every view. Of a device's lane, an op that fell back to the host is
-- attempted and not right; a lane of the host alone (a backend that compiles for it) is right there.
--   lane: `device` where ops of the night ran on a device or its simulator, else `host`
SELECT n.night_id, n.series, n.started, n.backend, n.arch, n.data_format,
       CASE WHEN EXISTS (SELECT 1 FROM night_counts d WHERE d.night_id = n.night_id AND d.series = n.series
                         AND d.model = '' AND d.ran_on IN ('simulator', 'silicon', 'mixed'))
            THEN 'device' ELSE 'host' END AS lane
FROM night_series n
