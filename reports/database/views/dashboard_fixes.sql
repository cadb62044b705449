-- Causes of failure in tonight's nights, one of each series that has not stopped, ranked as by `opscope unblock`.
--   model_count: models that it holds back
SELECT f.night_id, f.started, w.day, f.backend, w.board AS arch, f.series, w.platform,
       f.position, SUBSTR(f.cluster, 1, 8) AS cause, f.failed_stage, f.error_message, f.op_names, f.models, f.model_count, f.alone, f.uses, f.ops,
       f.expected_ops, f.repro, f.owner, f.remark
-- SQLite takes tables of a CROSS JOIN in their order: from the nights that are asked for to their rows.
FROM night_dates w
CROSS JOIN night_clusters f
WHERE f.night_id = w.night_id AND f.series = w.series AND w.tonight = 1
