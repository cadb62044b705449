-- Nights, and runs that belong to none, that are dated later than now and a day: a clock was wrong where they were made. None
-- of them is ever the newest. Nights of releases are of no time.
SELECT night_id, label AS night, SUBSTR(label, 1, 10) AS day, kind, started FROM nights WHERE axis = 'time' AND started > {tomorrow}
