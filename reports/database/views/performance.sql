-- What each op cost: device cycles, time and memory of one execution, what limits it and what it moves, how long it takes where something truly runs it, cycles of all its uses, and the harness's seconds.
SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.op_id, t.op_name, t.op_kind, o.signature, t.model_name,
       {format t} AS data_format, t.math_fidelity, {measures},
       t.uses, t.cycles * t.uses AS cycles_of_all_uses, t.seconds
FROM op_tests t
JOIN ops o ON o.op_id = t.op_id
WHERE t.superseded_by <> t.run_id AND t.status NOT IN {NOT_ATTEMPTED}
