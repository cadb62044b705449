-- How did the share of right results move from run to run, in each place of execution?
SELECT r.series, SUBSTR(n.label, 1, 10) AS day, r.started, p.run_id, p.backend, p.arch, p.ran_on, r.backend_revision, p.attempted_ops, p.right_ops, p.pass_rate,
       p.pass_rate_of_uses
FROM pass_rate p
JOIN runs r ON r.run_id = p.run_id
JOIN nights n ON n.night_id = r.night_id
ORDER BY r.started, p.run_id, p.ran_on
