-- The furthest stage that the ops of each family passed, in unique ops and in uses.
SELECT run_id, backend, arch, card_type, ran_on, op_kind, stage_reached,
       COUNT(*) AS ops,
       SUM(uses) AS uses
FROM op_tests
WHERE superseded_by <> run_id
GROUP BY run_id, backend, arch, card_type, ran_on, op_kind, stage_reached
