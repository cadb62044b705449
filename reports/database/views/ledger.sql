-- How the ops of a run ended: one row per status and place of execution. `uses` weighs each op by how often it occurs in
-- the models.
SELECT run_id, backend, arch, card_type, ran_on, op_tests.status AS status,
       CASE WHEN expected <> '' AND NOT is_failure THEN 1 ELSE 0 END AS is_expected,
       COUNT(*) AS ops,
       SUM(CASE WHEN flaky THEN 1 ELSE 0 END) AS flaky_ops,
       SUM(uses) AS uses
FROM op_tests
WHERE superseded_by <> run_id
GROUP BY run_id, backend, arch, card_type, ran_on, op_tests.status, CASE WHEN expected <> '' AND NOT is_failure THEN 1 ELSE 0 END
