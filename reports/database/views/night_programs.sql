-- Each model that ran as one program in a night, by the verdict that counts: the newest, one that was attempted before one
-- that was not.
--   status: how it ended as one program; where it was right, its ops may have been left out
--   right_whole: 1 if it is right as one program, 0 if it went wrong, NULL where it has no verdict
SELECT night_id, series, model, run_id, op_id, backend, status,
       CASE WHEN status IN {RIGHT} THEN 1 WHEN status IN {FAILED} THEN 0 END AS right_whole
FROM (
    SELECT m.*, ROW_NUMBER() OVER (PARTITION BY m.night_id, m.series, m.model
               ORDER BY CASE WHEN m.status IN {NOT_ATTEMPTED} THEN 1 ELSE 0 END, r.started DESC, m.run_id DESC) AS place
    FROM whole_models m
    JOIN runs r ON r.run_id = m.run_id
) newest
WHERE place = 1
