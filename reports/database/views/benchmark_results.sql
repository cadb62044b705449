-- What `opscope benchmark --database` measured: one row per call. A figure is null where it was not measured.
--   benchmark_id: digest of the report
--   host: the machine that measured
--   device: `tt` (a simulated card), `cpu` (XLA) or `iree`
--   config: the model's configuration as it was asked for
--   task: the task as it was named
--   board: the simulated card; empty for another device
--   compiler: what compiled for the CPU; empty for a simulated card
--   microbatch: inputs per loop
--   loop_count: loops
--   inputs: inputs that were asked for
--   timing_only: whether nothing was computed, so that only the simulated figures are there
--   epochs: epochs of the plan
--   push_seconds: the host's time for pushing the inputs that were computed: one or all of them
--   device_seconds: the host's time while the device computes or is simulated
--   pop_seconds: the host's time for popping their outputs
--   total_seconds: all three
--   inputs_per_second: inputs that were computed / total_seconds
--   simulated_cycles_per_input: cycles that the simulated card takes
--   simulated_seconds_per_input: seconds that the simulated card takes
--   simulated_inputs_per_second: 1 / simulated_seconds_per_input
SELECT benchmark_id, started, SUBSTR(CAST(started AS TEXT), 1, 10) AS day, host, device, model, config, task, board, compiler, microbatch, loop_count, inputs,
       timing_only, epochs, push_seconds, device_seconds, pop_seconds, total_seconds, inputs_per_second,
       simulated_cycles_per_input, simulated_seconds_per_input, simulated_inputs_per_second
FROM benchmarks
