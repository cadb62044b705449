-- Per model and kind of op: how many ops were attempted, and how many of them came out right in each place of execution.
WITH places AS (
    SELECT run_id, op_id, model, COUNT(*) AS uses
    FROM uses
    GROUP BY run_id, op_id, model
), attempted AS (
    SELECT t.run_id, t.backend, t.arch, t.card_type, p.model, t.op_kind, COUNT(*) AS ops, SUM(p.uses) AS uses
    FROM op_tests t
    JOIN places p ON p.run_id = t.run_id AND p.op_id = t.op_id
    WHERE t.status NOT IN ('stopped', 'skipped', 'not_run')
    GROUP BY t.run_id, t.backend, t.arch, t.card_type, p.model, t.op_kind
), passed AS (
    SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, p.model, t.op_kind,
           COUNT(*) AS ops, SUM(p.uses) AS uses
    FROM op_tests t
    JOIN places p ON p.run_id = t.run_id AND p.op_id = t.op_id
    WHERE t.status = 'success'
    GROUP BY t.run_id, t.backend, t.arch, t.card_type, t.ran_on, p.model, t.op_kind
)
SELECT a.run_id, a.backend, a.arch, a.card_type, COALESCE(p.ran_on, 'none') AS ran_on, a.model, a.op_kind,
       a.ops AS attempted_ops, COALESCE(p.ops, 0) AS passed_ops,
       1.0 * COALESCE(p.ops, 0) / a.ops AS coverage,
       a.uses AS attempted_uses, COALESCE(p.uses, 0) AS passed_uses
FROM attempted a
LEFT JOIN passed p
  ON p.run_id = a.run_id AND p.backend = a.backend AND p.arch = a.arch AND p.card_type = a.card_type
 AND p.model = a.model AND p.op_kind = a.op_kind
