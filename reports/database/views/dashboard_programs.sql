-- What the compiler made of each whole model, night by night: a row for each number of its structure, and what it was in
-- the previous night of the series.
--   part: `ops`, `ahead` (evaluated once), `fused`, `memory` and `cycles` have names; `casts`, `launches`, ... are of the program
--   name: the op or the kernel; empty for a number of the whole program
--   op_on: the model and the op, without its dialect, and where it was compiled, if tonight has several such places
--   place: memory and layout, of `memory`; else empty
--   number: how many there are in this night; 0 of ops that the model had in another
--   number_before: how many there were in the previous night; NULL where nothing is known of it, or the model was another module
--   changed: 1 where these two differ
--   cycles: device cycles of one execution of the whole model
--   cycles_before: the same in the previous night
WITH compiled AS (
    SELECT m.night_id, m.series, m.model, m.op_id, m.run_id, m.backend, m.cycles,
           ROW_NUMBER() OVER (PARTITION BY m.night_id, m.series, m.model ORDER BY r.started DESC, m.run_id DESC) AS place
    FROM whole_models m
    JOIN runs r ON r.run_id = m.run_id
    -- A run of an earlier opscope has none, which is no program without ops.
    WHERE EXISTS (SELECT 1 FROM structures s WHERE s.run_id = m.run_id AND s.op_id = m.op_id AND s.backend = m.backend)
), pairs AS (
    SELECT c.*, b.run_id AS run_before, b.cycles AS cycles_before
    FROM compiled c
    JOIN night_series n ON n.night_id = c.night_id AND n.series = c.series
    LEFT JOIN compiled b ON b.night_id = n.previous_night AND b.series = c.series AND b.op_id = c.op_id AND b.model = c.model
         AND b.place = 1
    WHERE c.place = 1
), numbers AS (
    SELECT p.night_id, p.series, p.model, s.part, s.name, s.place, s.number, 0 AS number_before
    FROM pairs p
    JOIN structures s ON s.run_id = p.run_id AND s.op_id = p.op_id AND s.backend = p.backend
    UNION ALL
    SELECT p.night_id, p.series, p.model, s.part, s.name, s.place, 0, s.number
    FROM pairs p
    JOIN structures s ON s.run_id = p.run_before AND s.op_id = p.op_id AND s.backend = p.backend
    UNION ALL
    -- An op that a model had in another night is there with 0.
    SELECT p.night_id, p.series, p.model, 'ops', o.name, '', 0, 0
    FROM pairs p
    JOIN (
        SELECT DISTINCT c.series, c.model, c.op_id, s.name
        FROM compiled c
        JOIN structures s ON s.run_id = c.run_id AND s.op_id = c.op_id AND s.backend = c.backend AND s.part = 'ops'
    ) o ON o.series = p.series AND o.model = p.model AND o.op_id = p.op_id
), both_nights AS (
    SELECT night_id, series, model, part, name, place, CAST(SUM(number) AS BIGINT) AS number,
           CAST(SUM(number_before) AS BIGINT) AS number_before
    FROM numbers
    GROUP BY night_id, series, model, part, name, place
)
SELECT w.night_id, w.started, w.backend, w.board AS arch, w.series, w.platform, w.date, w.day, w.newest, w.tonight, w.of_date,
       p.model, p.model || ': ' || REPLACE(x.name, 'ttnn.', '') || w.named AS op_on, x.part, x.name, x.place, x.number, CASE WHEN p.run_before IS NOT NULL THEN x.number_before END AS number_before,
       CASE WHEN p.run_before IS NOT NULL AND x.number <> x.number_before THEN 1 ELSE 0 END AS changed,
       p.cycles, p.cycles_before
FROM night_dates w
JOIN pairs p ON p.night_id = w.night_id AND p.series = w.series
JOIN both_nights x ON x.night_id = p.night_id AND x.series = p.series AND x.model = p.model
