-- The unlock curve of tonight's nights, one of each series that has not stopped: how many models are whole after each fix, in the order that
-- completes models fastest.
--   whole: models that nothing holds back then
--   cause: the short id of the cause that the last of these fixes removes
SELECT c.night_id, c.started, w.day, c.backend, w.board AS arch, c.series, w.platform,
       c.fixes, SUBSTR(c.cluster, 1, 8) AS cause, c.whole, c.all_models, c.unlocked
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_dates w
CROSS JOIN night_unlock c
WHERE c.night_id = w.night_id AND c.series = w.series AND w.tonight = 1
