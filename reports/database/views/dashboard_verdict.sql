-- Tonight in one sentence: one row for each series, and before them one for all that speak tonight together, in which an op
-- that got worse on two boards counts once, and so does a cause. Of a series that has stopped nothing counts: its sentence
-- says since when.
--   one_series: 0 for all series together, 1 for one of them
--   platform: backend and board; `all` for all together
--   stopped: series that have stopped; in the row of a series 1 if it has
--   verdict: `worse`, `better`, `as before`, `first night`, or `stopped`
--   sentence: the verdict with its numbers
--   new_failures: unique ops that fail a gate: NEW, REASON-CHANGED or PCC-DROP, neither expected nor flaky
--   causes: causes of these: errors, or the op's name where there is no error
--   fixed_ops: unique ops that went wrong and are right
--   slower_ops: unique ops that became slower
--   most_in: the op name with the most of the new failures
WITH newest AS (
    -- Since: the commits after the night before, up to this one; a compiler whose commit is not known has none.
    SELECT s.*, w.platform, w.day, w.tonight, CASE WHEN s.revision <> '' AND p.revision <> s.revision
                     THEN CASE WHEN p.revision <> '' THEN p.revision || '..' ELSE '' END || s.revision END AS commits
    FROM night_series s
    JOIN night_dates w ON w.night_id = s.night_id AND w.series = s.series AND w.newest = 1
    LEFT JOIN night_series p ON p.night_id = s.previous_night AND p.series = s.series
), scopes AS (
    SELECT series AS scope, series, night_id, started, day, tonight, platform, 1 AS one_series,
           commits AS new_commits, CASE WHEN jaxlib_changed THEN jaxlib END AS new_jaxlib,
           status
    FROM newest
    UNION ALL
    SELECT '', series, night_id, started, day, tonight, 'all', 0, commits,
           CASE WHEN jaxlib_changed THEN jaxlib END, status
    FROM newest
    WHERE tonight = 1
), nights_of_scope AS (
    SELECT scope, MIN(platform) AS platform, MIN(one_series) AS one_series, MAX(started) AS started,
           MAX(day) AS day, MIN(tonight) AS tonight,
           COUNT(DISTINCT new_commits) AS ranges, MIN(new_commits) AS commits,
           COUNT(DISTINCT new_jaxlib) AS jaxlibs, MIN(new_jaxlib) AS jaxlib,
           SUM(CASE WHEN status = 'partial' THEN 1 ELSE 0 END) AS partial_nights
    FROM scopes GROUP BY scope
), changed AS (
    SELECT s.scope, d.op_id, d.op_name, d.label, d.news, COALESCE(NULLIF(d.cluster, ''), d.op_name) AS cause
    FROM scopes s
    JOIN night_diff d ON d.night_id = s.night_id AND d.series = s.series
    WHERE s.tonight = 1
), counts AS (
    SELECT scope, COUNT(DISTINCT CASE WHEN news = 1 THEN op_id END) AS new_failures,
           COUNT(DISTINCT CASE WHEN news = 1 THEN cause END) AS causes,
           COUNT(DISTINCT CASE WHEN label = 'FIXED' THEN op_id END) AS fixed_ops,
           COUNT(DISTINCT CASE WHEN label = 'SLOWER' THEN op_id END) AS slower_ops,
           COUNT(DISTINCT CASE WHEN label = 'FIRST' THEN op_id END) AS first_ops,
           COUNT(DISTINCT CASE WHEN label <> 'FIRST' THEN op_id END) AS compared_ops
    FROM changed GROUP BY scope
), names AS (
    SELECT scope, op_name, ROW_NUMBER() OVER (PARTITION BY scope ORDER BY COUNT(DISTINCT op_id) DESC, op_name) AS position
    FROM changed WHERE news = 1 GROUP BY scope, op_name
), facts AS (
    SELECT n.*, COALESCE(c.new_failures, 0) AS new_failures, COALESCE(c.causes, 0) AS causes,
           COALESCE(c.fixed_ops, 0) AS fixed_ops, COALESCE(c.slower_ops, 0) AS slower_ops,
           COALESCE(c.first_ops, 0) AS first_ops, COALESCE(c.compared_ops, 0) AS compared_ops,
           COALESCE(m.op_name, '') AS most_in
    FROM nights_of_scope n
    LEFT JOIN counts c ON c.scope = n.scope
    LEFT JOIN names m ON m.scope = n.scope AND m.position = 1
)
SELECT started, scope AS series, platform, one_series, new_failures, causes, fixed_ops, slower_ops, most_in,
       CASE WHEN one_series = 1 THEN 1 - tonight ELSE (SELECT COUNT(*) FROM newest n WHERE n.tonight = 0) END AS stopped,
       CASE WHEN tonight = 0 THEN 'stopped' WHEN new_failures > 0 THEN 'worse' WHEN fixed_ops > 0 THEN 'better'
            WHEN first_ops > 0 AND compared_ops = 0 THEN 'first night' ELSE 'as before' END AS verdict,
       CASE WHEN tonight = 0 THEN 'Stopped: no night since ' || day
            WHEN new_failures > 0
            THEN 'Worse: ' || new_failures || CASE new_failures WHEN 1 THEN ' new failure with ' ELSE ' new failures with ' END
                 || causes || CASE causes WHEN 1 THEN ' cause' ELSE ' causes' END
                 || CASE WHEN new_failures > 1 THEN ', most in ' ELSE ', in ' END || REPLACE(most_in, 'stablehlo.', '')
            WHEN fixed_ops > 0 THEN 'Better: nothing is worse'
            WHEN first_ops > 0 AND compared_ops = 0 THEN 'First night: ' || first_ops || CASE first_ops WHEN 1 THEN ' op goes wrong' ELSE ' ops go wrong' END
            ELSE 'As before: nothing is worse' END
       -- What else is new is named only where there is one of it: a night of two compilers has no "since".
       || CASE WHEN ranges = 1 AND new_failures > 0 THEN ' since ' || commits ELSE '' END
       || CASE WHEN jaxlibs = 1 AND new_failures > 0 THEN ' since jaxlib ' || jaxlib ELSE '' END
       || CASE WHEN fixed_ops > 0 THEN '; ' || fixed_ops || ' fixed' ELSE '' END
       || CASE WHEN slower_ops > 0 THEN '; ' || slower_ops || ' slower' ELSE '' END
       || CASE WHEN partial_nights > 0 AND tonight = 1 THEN '; not all of it arrived (partial)' ELSE '' END
       || '.' AS sentence
FROM facts
