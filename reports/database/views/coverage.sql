-- Per run, model and op family: how many ops were attempted, and how many of them were right at each place of execution.
-- Left out: ops that were stopped, deselected or not reached, and ops that could not be split off.
WITH placed AS (
    SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.status, t.op_kind, m.model, u.uses
    FROM op_tests t
    JOIN models m ON m.run_id = t.run_id
    JOIN module_ops u ON u.module_id = m.module_id AND u.op_id = t.op_id
    WHERE t.superseded_by <> t.run_id AND t.status NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
), attempted AS (
    SELECT run_id, backend, arch, card_type, model, op_kind, COUNT(*) AS ops, SUM(uses) AS uses
    FROM placed
    GROUP BY run_id, backend, arch, card_type, model, op_kind
), passed AS (
    SELECT run_id, backend, arch, card_type, ran_on, model, op_kind, COUNT(*) AS ops, SUM(uses) AS uses
    FROM placed
    WHERE status = 'success'
    GROUP BY run_id, backend, arch, card_type, ran_on, model, op_kind
)
SELECT a.run_id, a.backend, a.arch, a.card_type, COALESCE(p.ran_on, 'none') AS ran_on, a.model, a.op_kind,
       a.ops AS attempted_ops, COALESCE(p.ops, 0) AS right_ops,
       1.0 * COALESCE(p.ops, 0) / a.ops AS pass_rate,
       a.uses AS attempted_uses, COALESCE(p.uses, 0) AS right_uses
FROM attempted a
LEFT JOIN passed p
  ON p.run_id = a.run_id AND p.backend = a.backend AND p.arch = a.arch AND p.card_type = a.card_type
 AND p.model = a.model AND p.op_kind = a.op_kind
