-- How the ops of a run ended: one row per status and place of execution; `uses` weighs each op by how often it stands
-- in the models.
--   known_limitation: 1 where a limitation names the failure
SELECT run_id, backend, arch, card_type, ran_on, status,
       CASE WHEN expected <> '' AND NOT is_failure THEN 1 ELSE 0 END AS known_limitation,
       COUNT(*) AS ops,
       SUM(CASE WHEN flaky THEN 1 ELSE 0 END) AS flaky,
       SUM(uses) AS uses
FROM op_tests
WHERE superseded_by <> run_id
GROUP BY run_id, backend, arch, card_type, ran_on, status, CASE WHEN expected <> '' AND NOT is_failure THEN 1 ELSE 0 END
