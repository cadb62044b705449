-- Where the ops of a night have to run to count as right. In a night that used a device, an op that fell back to the host
-- is attempted and not right, and so is one that a compiler alone took. In a night of a backend that compiles for the host,
-- or of one without `run`, they are right.
WITH places AS MATERIALIZED (
    -- Materialized, or the place is looked up anew for each row that it is joined to.
    SELECT n.night_id, n.series, n.started, SUBSTR(l.label, 1, 10) AS day, n.backend, {board n} AS arch, n.data_format, n.status AS night_status,
           CASE WHEN EXISTS (SELECT 1 FROM night_counts d WHERE d.night_id = n.night_id AND d.series = n.series
                             AND d.model = '' AND d.ran_on IN ('simulator', 'silicon', 'mixed'))
                THEN 'device' ELSE 'host' END AS place
    FROM night_series n JOIN nights l ON l.night_id = n.night_id
)
SELECT night_id, series, started, day, backend, arch, data_format, night_status, place FROM places
