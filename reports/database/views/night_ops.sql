-- Every op of every night with the result that counts: how it ended, what it cost, where its inputs came from. One row per
-- night, series and op. If an op's id changed, its history is found under the new id. Ask for a night or an op: the view
-- has millions of rows.
--   op_id: the op; its new id if that changed
--   data_format: format in which the device computes floats; `default` without --data-format, `unknown` if the op never ran
--   cached_from: the run that found the verdict, if it was kept; `tt@0.1.2 in RUN` if that release had an equal program
SELECT t.night_id, n.label AS night, SUBSTR(n.label, 1, 10) AS day, n.kind, n.started, t.series, t.backend, COALESCE((SELECT {board s} FROM night_series s WHERE s.night_id = t.night_id AND s.series = t.series),
       {card t}) AS arch, {format t} AS data_format, t.math_fidelity,
       COALESCE(a.new_id, t.op_id) AS op_id, t.op_name, COALESCE(NULLIF(t.op_kind, ''), 'other') AS op_kind, o.signature,
       o.dtype, o.rank, t.run_id, t.model_name, t.status AS status, t.stage_reached, t.failed_stage, t.error_signature,
       COALESCE(t.cause, '') AS cause, t.error_message, t.crash_kind, t.expected, t.flaky, t.is_failure, t.ran_on, t.card_type, t.pcc, t.z_max, t.z_place,
       t.question, t.hypothesis, t.cycles,
       t.cycles * t.uses AS cycles_of_all_uses, t.device_ns, t.l1_peak_bytes, t.dram_peak_bytes, t.uses,
       1000.0 * t.compile_seconds AS compile_ms, t.seconds, t.provenance, t.cached_from, t.attempt,
       COALESCE(t.artifact, '') AS artifact, t.repro,
       CASE WHEN t.status IN {FAILED}
            THEN 1 ELSE 0 END AS bad,
       CASE WHEN t.status IN {NOT_ATTEMPTED} THEN 0 ELSE 1 END AS attempted
FROM op_tests t
JOIN nights n ON n.night_id = t.night_id
JOIN ops o ON o.op_id = t.op_id
LEFT JOIN op_alias a ON a.old_id = t.op_id
WHERE t.superseded_by = ''
