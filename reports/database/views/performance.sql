-- What each op cost: device cycles, time and memory of one execution, what limits it and what it moves, how long it takes where something truly runs it, cycles of all its uses, and the harness's seconds.
SELECT t.run_id, t.backend, t.arch, t.card_type, t.ran_on, t.op_id, t.op_name, t.op_kind, o.signature, t.model_name,
       t.data_format, t.math_fidelity, t.cycles, t.device_ns, t.l1_peak_bytes, t.dram_peak_bytes,
       t.limiter, t.utilisation, t.dram_bytes, t.noc_bytes, t.link_bytes, t.link_ns, t.run_ns, t.run_spread_ns,
       t.uses, t.cycles * t.uses AS cycles_of_all_uses, t.seconds
FROM op_tests t
JOIN ops o ON o.op_id = t.op_id
WHERE t.superseded_by <> t.run_id AND t.status NOT IN ('golden_in_doubt', 'stopped', 'skipped', 'not_run')
