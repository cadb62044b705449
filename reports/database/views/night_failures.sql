-- Ops that go wrong in a night, known limitations among them, with owner, diagnostic and the line that runs just that op
-- again. An op that could not be split off has no diagnostic.
--   label: what it was in the night before, as `opscope diff` says it
--   run_id: the run whose verdict counts
--   artifact: the full diagnostic, relative to the folder of that run; empty where there is none
--   owner: the team that looks after it
SELECT d.night_id, d.night AS label_of_night, d.kind, d.started, d.series, d.backend, d.arch, d.data_format, d.label,
       d.op_id, d.op_name, d.op_kind, d.signature, d.dtype, d.rank, d.status_now AS status, d.stage, d.cluster,
       d.message, d.known, d.flaky, d.models, d.model_count, d.uses, d.owner, t.run_id, t.stage_reached, t.crash_kind,
       t.pcc, COALESCE(t.artifact, '') AS artifact, COALESCE(t.repro, '') AS repro
FROM night_diff d
LEFT JOIN op_tests t
  ON t.night_id = d.night_id AND t.series = d.series AND t.op_id = d.op_id AND t.superseded_by = ''
WHERE d.now_bad = 1
