-- The pass rate night by night at each place of execution: over all ops of the night, and like for like, over the ops that
-- were attempted in this night and in the previous one. Left out: ops that were deselected or not reached. Ops
-- that could not be split off count as attempted.
--   scope: `all`, or `like for like`, which new models do not affect
--   ran_on: where the right results were computed; shares of two places never add up
--   pass_rate_before: like for like, the pass rate of the previous night; empty in scope `all`
WITH attempted AS (
    SELECT night_id, series, SUM(ops) AS ops, SUM(uses) AS uses
    FROM night_counts
    WHERE model = '' AND status NOT IN {NOT_ATTEMPTED}
    GROUP BY night_id, series
), passed AS (
    SELECT night_id, series, ran_on, SUM(ops) AS ops, SUM(uses) AS uses
    FROM night_counts
    WHERE model = '' AND status IN {RIGHT}
    GROUP BY night_id, series, ran_on
), rates AS (
    SELECT a.night_id, a.series, 'all' AS scope, COALESCE(p.ran_on, 'none') AS ran_on, a.ops AS attempted_ops,
           COALESCE(p.ops, 0) AS right_ops, NULL AS right_before, a.uses AS attempted_uses,
           COALESCE(p.uses, 0) AS right_uses
    FROM attempted a
    LEFT JOIN passed p ON p.night_id = a.night_id AND p.series = a.series
    UNION ALL
    SELECT night_id, series, 'like for like', ran_on, both_ops, right_now, right_before, both_uses, right_uses_now
    FROM night_pairs
    WHERE model = ''
)
SELECT r.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, s.started, r.series, s.backend, {board s} AS arch, s.data_format, r.scope, r.ran_on,
       r.attempted_ops, r.right_ops, 1.0 * r.right_ops / r.attempted_ops AS pass_rate,
       1.0 * r.right_before / r.attempted_ops AS pass_rate_before, r.attempted_uses, r.right_uses,
       CASE WHEN r.attempted_uses > 0 THEN 1.0 * r.right_uses / r.attempted_uses END AS pass_rate_of_uses,
       TRIM(CASE WHEN s.compiler_changed THEN 'compiler ' ELSE '' END || CASE WHEN s.jaxlib_changed THEN 'jaxlib ' ELSE '' END
            || CASE WHEN s.models_changed THEN 'models' ELSE '' END) AS changed
FROM rates r
JOIN night_series s ON s.night_id = r.night_id AND s.series = r.series
JOIN nights n ON n.night_id = r.night_id
