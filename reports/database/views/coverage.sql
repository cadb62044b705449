-- Per run, model and op family: how many ops there are, how many of them were attempted, and how many were right at each
-- place of execution. Ops that were deselected or not reached, or have no verdict, count as not attempted, and so as not right.
--   ops: unique ops of the model in this family
--   pass_rate: right_ops / ops
--   uses: uses of these ops in the model
WITH asked AS (
    SELECT m.run_id, m.model, COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind, COUNT(*) AS ops, SUM(u.uses) AS uses
    FROM models m
    JOIN module_ops u ON u.module_id = m.module_id
    JOIN ops o ON o.op_id = u.op_id
    GROUP BY m.run_id, m.model, COALESCE(NULLIF(o.op_kind, ''), 'other')
), placed AS (
    SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.status AS status, m.model, u.uses,
           COALESCE(NULLIF(o.op_kind, ''), 'other') AS op_kind
    FROM op_tests t
    JOIN models m ON m.run_id = t.run_id
    JOIN module_ops u ON u.module_id = m.module_id AND u.op_id = t.op_id
    JOIN ops o ON o.op_id = t.op_id
    WHERE t.superseded_by <> t.run_id AND t.status NOT IN {NOT_ATTEMPTED}
), attempted AS (
    SELECT run_id, backend, arch, card_type, model, op_kind, COUNT(*) AS ops, SUM(uses) AS uses
    FROM placed
    GROUP BY run_id, backend, arch, card_type, model, op_kind
), passed AS (
    SELECT run_id, backend, arch, card_type, ran_on, model, op_kind, COUNT(*) AS ops, SUM(uses) AS uses
    FROM placed
    WHERE status IN {RIGHT}
    GROUP BY run_id, backend, arch, card_type, ran_on, model, op_kind
)
SELECT q.run_id, COALESCE(a.backend, r.backend) AS backend, COALESCE(a.arch, r.arch) AS arch,
       COALESCE(a.card_type, 'none') AS card_type, COALESCE(p.ran_on, 'none') AS ran_on, q.model, q.op_kind,
       q.ops, COALESCE(a.ops, 0) AS attempted_ops, COALESCE(p.ops, 0) AS right_ops,
       1.0 * COALESCE(p.ops, 0) / q.ops AS pass_rate,
       q.uses, COALESCE(a.uses, 0) AS attempted_uses, COALESCE(p.uses, 0) AS right_uses
FROM asked q
JOIN runs r ON r.run_id = q.run_id
LEFT JOIN attempted a ON a.run_id = q.run_id AND a.model = q.model AND a.op_kind = q.op_kind
LEFT JOIN passed p
  ON p.run_id = a.run_id AND p.backend = a.backend AND p.arch = a.arch AND p.card_type = a.card_type
 AND p.model = a.model AND p.op_kind = a.op_kind
