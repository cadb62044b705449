-- Every model that was asked for in a run, and whether it ran or why not.
--   outcome: `ran`, `build_failed`, `export_failed`, `prepare_failed`, `framework_missing` or `not_run`
--   reason: the error, or how to install what is missing
--   artifact: the traceback, relative to the run's folder
--   module_ops: all ops of its module = uses of unique ops + unsplittable + structural + dead
--   structural: ops that only hold the program together
--   dead: ops that no result of it needs and that have no effect; they are not run
--   import_status: `agrees` with its own framework, `import_differs`, `import_crashed` or `import_not_checked`; empty if nothing was imported
--   import_text: how it differs, or why it was not checked
--   import_expected: the limitation that names the difference
SELECT r.night_id, SUBSTR(n.label, 1, 10) AS day, n.kind, m.run_id, r.started, r.series, r.backend, r.arch, m.model, m.framework, m.outcome, m.reason,
       m.artifact, m.module_ops, m.structural, m.dead, m.import_status, m.import_text, m.import_expected
FROM models m
JOIN runs r ON r.run_id = m.run_id
JOIN nights n ON n.night_id = r.night_id
