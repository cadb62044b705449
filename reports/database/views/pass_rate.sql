-- Share of the attempted ops that were right, at each place of execution (`none`: passed by a compiler alone). An op that fell back to the host counts
-- as attempted on the device, and as right only in the row of the host.
--   pass_rate_of_uses: right_uses / attempted_uses
WITH attempted AS (
    SELECT run_id, backend, arch, card_type, COUNT(*) AS ops, SUM(uses) AS uses
    FROM op_tests
    WHERE superseded_by <> run_id AND {ending op_tests} NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
    GROUP BY run_id, backend, arch, card_type
), passed AS (
    SELECT run_id, backend, arch, card_type, ran_on, COUNT(*) AS ops, SUM(uses) AS uses
    FROM op_tests
    WHERE superseded_by <> run_id AND {ending op_tests} IN ('success', 'passed')
    GROUP BY run_id, backend, arch, card_type, ran_on
)
SELECT a.run_id, a.backend, a.arch, a.card_type, COALESCE(p.ran_on, 'none') AS ran_on,
       a.ops AS attempted_ops, COALESCE(p.ops, 0) AS right_ops,
       1.0 * COALESCE(p.ops, 0) / a.ops AS pass_rate,
       a.uses AS attempted_uses, COALESCE(p.uses, 0) AS right_uses,
       CASE WHEN a.uses > 0 THEN 1.0 * COALESCE(p.uses, 0) / a.uses END AS pass_rate_of_uses
FROM attempted a
LEFT JOIN passed p
  ON p.run_id = a.run_id AND p.backend = a.backend AND p.arch = a.arch AND p.card_type = a.card_type
