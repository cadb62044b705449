-- Ops that go wrong in a night, expected failures included, with owner, diagnostic and the command that runs just that op
-- again. An op that could not be split off has no diagnostic.
--   artifact: the full diagnostic, relative to the folder of that run; empty if there is none
SELECT d.night_id, d.night, d.day, d.kind, d.started, d.series, d.backend, d.arch, d.data_format, d.label,
       d.op_id, d.op_name, d.op_kind, d.signature, d.dtype, d.rank, d.status_now AS status, d.failed_stage, d.cluster,
       d.error_message, d.expected, d.flaky, d.models, d.model_count, d.uses, d.owner, t.run_id, t.stage_reached, t.crash_kind,
       t.pcc, t.z_max, t.z_place, t.question, t.hypothesis, COALESCE(t.artifact, '') AS artifact, COALESCE(t.repro, '') AS repro
FROM night_diff d
LEFT JOIN op_tests t
  ON t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id AND t.superseded_by = ''
WHERE d.now_bad = 1
