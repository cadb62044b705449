-- Tonight in one sentence, the one that `opscope diff` begins with: one row for each series, and before them one for all that
-- speak tonight together, in which an op that got worse on two boards counts once, and so does a cause. Of a series that has
-- stopped nothing counts: its sentence says since when.
--   one_series: 0 for all series together, 1 for one of them
--   platform: backend and board, and the number format if one was asked for; `all` for all together
--   stopped: series that have stopped; in the row of a series 1 if it has
--   verdict: `worse`, `better`, `as before`, `first night`, `stopped`, `awaited` until it is late, or `no night` for a series with nothing but runs
--   sentence: what broke and what to do first, in at most 90 characters
--   about: name, date and zone, series and commits
--   chips: what else there is to say
--   new_failures: unique ops that are NEW, neither expected nor flaky; what fails for another reason is `worse` too
--   causes: causes of these
--   fixed_ops: unique ops that went wrong and are right
--   slower_ops: unique ops that became slower
--   most_in: the op name with the most of the new failures
SELECT n.started, SUBSTR(n.label, 1, 10) AS day, v.series, COALESCE(w.platform, 'all') AS platform, CASE v.series WHEN '' THEN 0 ELSE 1 END AS one_series,
       CASE w.tonight WHEN 0 THEN 0 ELSE v.new_failures END AS new_failures,
       CASE w.tonight WHEN 0 THEN 0 ELSE v.causes END AS causes,
       CASE w.tonight WHEN 0 THEN 0 ELSE v.fixed_ops END AS fixed_ops,
       CASE w.tonight WHEN 0 THEN 0 ELSE v.slower_ops END AS slower_ops,
       CASE w.tonight WHEN 0 THEN '' ELSE v.most_in END AS most_in,
       CASE v.series WHEN '' THEN (SELECT COUNT(*) FROM night_dates d WHERE d.stopped = 1) ELSE w.stopped END AS stopped,
       CASE WHEN COALESCE(w.tonight, 1) = 1 THEN v.verdict WHEN w.stopped = 1 THEN 'stopped' WHEN n.kind = 'night' THEN 'awaited' ELSE 'no night' END AS verdict,
       CASE WHEN COALESCE(w.tonight, 1) = 1 THEN v.sentence
            WHEN w.stopped = 1 THEN 'Stopped: no night since ' || w.day || '.'
            WHEN n.kind = 'night' THEN 'Awaited: its newest night is of ' || w.day || '.'
            ELSE 'No night: its newest run is of ' || w.day || '.' END AS sentence, v.about, v.chips
FROM night_sentences v
JOIN nights n ON n.night_id = v.night_id
LEFT JOIN night_dates w ON w.night_id = v.night_id AND w.series = v.series
WHERE w.newest = 1
   OR (v.series = '' AND v.night_id = (SELECT d.night_id FROM night_dates d WHERE d.tonight = 1
                                       ORDER BY d.started DESC, d.night_id DESC LIMIT 1))
