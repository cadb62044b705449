-- Share of the attempted ops that were right, at each place of execution (`none`: passed by a compiler alone). An op that fell back to the host counts
-- as attempted on the device, and as right only in the row of the host.
WITH counted AS (
    SELECT run_id, backend, arch, card_type, ran_on, COUNT(*) AS ops, SUM(uses) AS uses,
           SUM(CASE WHEN op_tests.status IN {RIGHT} THEN 1 ELSE 0 END) AS right_ops,
           SUM(CASE WHEN op_tests.status IN {RIGHT} THEN uses ELSE 0 END) AS right_uses
    FROM op_tests
    WHERE superseded_by <> run_id AND op_tests.status NOT IN {NOT_ATTEMPTED}
    GROUP BY run_id, backend, arch, card_type, ran_on
), summed AS (
    SELECT run_id, backend, arch, card_type, ran_on, right_ops, right_uses,
           CAST(SUM(ops) OVER of_card AS BIGINT) AS attempted_ops, SUM(uses) OVER of_card AS attempted_uses,
           MAX(right_ops) OVER of_card AS most,
           ROW_NUMBER() OVER (PARTITION BY run_id, backend, arch, card_type ORDER BY ran_on) AS place
    FROM counted WINDOW of_card AS (PARTITION BY run_id, backend, arch, card_type)
)
SELECT run_id, backend, {card summed} AS arch, card_type, CASE WHEN most = 0 THEN 'none' ELSE ran_on END AS ran_on,
       attempted_ops, right_ops, 1.0 * right_ops / attempted_ops AS pass_rate,
       attempted_uses, right_uses, CASE WHEN attempted_uses > 0 THEN 1.0 * right_uses / attempted_uses END AS pass_rate_of_uses
FROM summed
WHERE right_ops > 0 OR (most = 0 AND place = 1)
