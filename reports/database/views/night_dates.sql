-- Which night of a series speaks for a date, and which speaks tonight. Tonight is the date of the newest night of any
-- series, each in its time zone; runs that belong to no night make no tonight, unless there are no nights. A series whose
-- newest night is of an earlier date has stopped: it is in no number of tonight. Nights of releases are of no date.
--   day: the same date as text
--   newest: 1 in the newest night of its series
--   tonight: 1 in the newest night of its series, if that is of tonight's date or later
--   of_date: 1 in the last night of its series of that date, which speaks for the date
--   named: a comma and the platform, to tell it from others; empty where there is one tonight
WITH newest_date AS (
    SELECT COALESCE(MAX(CASE WHEN n.kind = 'night' THEN s.date END), MAX(s.date)) AS date
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id
    WHERE n.axis = 'time'
), of_series AS (
    SELECT series, MAX(started) AS started, COALESCE(MIN(board), MIN(arch)) AS board FROM night_series GROUP BY series
), tonight AS (
    SELECT d.date, COUNT(DISTINCT s.backend || ' ' || b.board || ' ' || s.data_format) AS platforms
    FROM newest_date d
    JOIN night_series s ON s.date >= d.date
    JOIN nights n ON n.night_id = s.night_id AND n.axis = 'time'
    JOIN of_series b ON b.series = s.series
    GROUP BY d.date
), dates AS MATERIALIZED (
    -- Materialized, or the texts are made anew for each row that they are joined to.
    SELECT s.night_id, s.series, s.started, s.backend, l.board,
           TRIM(s.backend || ' ' || l.board || CASE s.data_format WHEN 'default' THEN '' ELSE ' ' || s.data_format END) AS platform,
           s.date,
           SUBSTR(n.label, 1, 10) AS day,
           CASE WHEN s.started = l.started THEN 1 ELSE 0 END AS newest,
           CASE WHEN s.started = l.started AND s.date >= t.date THEN 1 ELSE 0 END AS tonight,
           CASE WHEN EXISTS (SELECT 1 FROM night_series o WHERE o.series = s.series AND o.date = s.date AND o.started > s.started)
                THEN 0 ELSE 1 END AS of_date,
           CASE WHEN t.platforms > 1
                THEN ', ' || TRIM(s.backend || ' ' || l.board || CASE s.data_format WHEN 'default' THEN '' ELSE ' ' || s.data_format END)
                ELSE '' END AS named
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id
    JOIN of_series l ON l.series = s.series
    CROSS JOIN tonight t
    WHERE n.axis = 'time'
)
SELECT night_id, series, started, backend, board, platform, date, day, newest, tonight, of_date, named FROM dates
