-- Causes of failure in the newest night of each series, ranked as by `opscope unblock`.
--   platform: backend and board
--   position: 1 holds back the most models, then the most uses
--   model_count: models that it holds back
--   alone: models that nothing else holds back
SELECT f.night_id, f.started, f.backend, f.arch, f.series, f.backend || ' ' || f.arch AS platform,
       f.position, f.cluster, f.failed_stage, f.error_message, f.op_names, f.models, f.model_count, f.alone, f.uses, f.ops,
       f.expected_ops, f.repro, f.owner
FROM night_clusters f
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l
  ON l.series = f.series AND l.started = f.started
