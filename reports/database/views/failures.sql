-- Ops that went wrong, with the reason and the command that runs just that op again. `expected` names the limitation, if
-- there is one.
SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.op_id, t.op_name, t.op_kind, o.signature, t.model_name,
       t.status AS status, t.stage_reached, t.failed_stage, t.error_signature, t.cause, t.error_message, t.crash_kind, t.pcc, t.z_max,
       t.z_place, t.question, t.hypothesis, t.uses,
       t.expected, t.is_failure, t.flaky, t.artifact, t.repro
FROM op_tests t
JOIN ops o ON o.op_id = t.op_id
WHERE t.superseded_by <> t.run_id AND (t.is_failure OR t.expected <> '')
