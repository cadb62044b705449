-- The newest night in one sentence, the one that `opscope diff` begins with: one row for each series, and before them one for
-- all series of the newest night's date together, in which an op that got worse on two boards counts once, and so does a
-- cause. A series that stopped has its own row, and no part in that one.
--   one_series: 0 for all series together, 1 for one of them
--   platform: backend and board; `all` for all together
--   verdict: `worse`, `better`, `as before`, or `first night`
--   sentence: what is new and what to do first, or what is right and what still fails
--   new_failures: unique ops that fail a gate: NEW, REASON-CHANGED or PCC-DROP, neither expected nor flaky
--   causes: causes of these
--   fixed_ops: unique ops that went wrong and are right
--   slower_ops: unique ops that became slower
--   most_in: the op name with the most of the new failures
SELECT n.started, v.series, CASE v.series WHEN '' THEN 'all' ELSE s.backend || ' ' || s.arch END AS platform,
       CASE v.series WHEN '' THEN 0 ELSE 1 END AS one_series,
       v.new_failures, v.causes, v.fixed_ops, v.slower_ops, v.most_in, v.verdict, v.sentence
FROM night_sentences v
JOIN nights n ON n.night_id = v.night_id
LEFT JOIN night_series s ON s.night_id = v.night_id AND s.series = v.series
WHERE (v.series <> '' AND s.started = (SELECT MAX(l.started) FROM night_series l WHERE l.series = v.series))
   OR (v.series = '' AND v.night_id = (SELECT l.night_id FROM night_series l ORDER BY l.started DESC, l.night_id DESC LIMIT 1))
