-- Causes of failure of the newest night of each series, for dashboards: the rows of `night_clusters`, which `opscope unblock`
-- ranks.
--   target: backend and board
--   position: 1 holds back the most models, then the most uses
--   error: what the error said
--   model_count: models that it holds back
--   alone: models that nothing else holds back
--   known_ops: of its ops, those that a limitation names
SELECT f.night_id, f.started, f.backend, f.arch, f.series, f.backend || ' ' || f.arch AS target,
       f.position, f.cluster, f.stage, f.message AS error, f.op_names, f.models, f.model_count, f.alone, f.uses, f.ops,
       f.known_ops, f.repro, f.owner
FROM night_clusters f
JOIN (SELECT series, MAX(started) AS started FROM night_series GROUP BY series) l
  ON l.series = f.series AND l.started = f.started
