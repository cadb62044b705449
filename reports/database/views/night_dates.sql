-- Which night of a series speaks for a date, and which speaks tonight. Tonight is the date of the newest night of any
-- series, each in its time zone. A series whose newest night is of an earlier date is in no number of tonight: it is awaited,
-- or has stopped where it is late by the `by:` of its night (36 hours without one) when the newest night of any series began. A run that belongs to no night is the newest of a series without nights, and speaks for a date, and tonight, where
-- no series has any. Nights of releases are of no date, and one that is dated later than now speaks for its date alone.
--   tonight: 1 in the newest night of its series, if that is of tonight's date or later
--   stopped: 1 in the newest night of a series that has stopped
--   named: a comma and the platform, to tell it from others; empty where there is one tonight
WITH timed AS (
    SELECT s.night_id, s.series, s.started, s.due, s.date, s.backend, s.data_format, s.board, s.arch, n.label,
           CASE n.kind WHEN 'night' THEN 1 ELSE 0 END AS is_night
    FROM night_series s
    JOIN nights n ON n.night_id = s.night_id
    WHERE n.axis = 'time'
), begun AS (
    SELECT * FROM timed WHERE night_id NOT IN (SELECT night_id FROM nights_ahead)
), of_series AS (
    SELECT series, MAX(is_night) AS has_nights, COALESCE(MIN(board), MIN(arch)) AS board,
           COALESCE(MAX(CASE is_night WHEN 1 THEN started END), MAX(started)) AS started
    FROM begun
    GROUP BY series
), newest_date AS (
    SELECT MAX(is_night) AS has_nights, COALESCE(MAX(CASE is_night WHEN 1 THEN date END), MAX(date)) AS date,
           COALESCE(MAX(CASE is_night WHEN 1 THEN started END), MAX(started)) AS started FROM begun
), tonight AS (
    SELECT d.date, d.started, d.has_nights, COUNT(DISTINCT {platform s b.board}) AS platforms
    FROM newest_date d
    JOIN begun s ON s.date >= d.date AND s.is_night = d.has_nights
    JOIN of_series b ON b.series = s.series
    GROUP BY d.date, d.started, d.has_nights
), dates AS MATERIALIZED (
    -- Materialized, or the texts are made anew for each row that they are joined to.
    SELECT s.night_id, s.series, s.started, s.backend, l.board,
           {platform s l.board} AS platform,
           s.date,
           SUBSTR(s.label, 1, 10) AS day,
           CASE WHEN s.started = l.started AND s.is_night = l.has_nights THEN 1 ELSE 0 END AS newest,
           CASE WHEN s.started = l.started AND s.is_night = t.has_nights AND s.date >= t.date THEN 1 ELSE 0 END AS tonight,
           CASE WHEN s.started = l.started AND s.is_night = t.has_nights AND s.date < t.date
                     AND COALESCE(s.due, s.started) < t.started THEN 1 ELSE 0 END AS stopped,
           CASE WHEN s.is_night = t.has_nights
                     AND NOT EXISTS (SELECT 1 FROM timed o WHERE o.series = s.series AND o.date = s.date
                                     AND o.started > s.started AND o.is_night = s.is_night)
                THEN 1 ELSE 0 END AS of_date,
           CASE WHEN t.platforms > 1 THEN ', ' || {platform s l.board} ELSE '' END AS named
    FROM timed s
    JOIN of_series l ON l.series = s.series
    CROSS JOIN tonight t
)
SELECT night_id, series, started, backend, board, platform, date, day, newest, tonight, stopped, of_date, named FROM dates
