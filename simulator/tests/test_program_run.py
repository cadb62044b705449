"""Programs of a plan give the bits of a run in one pass, microbatch after microbatch, over queues of two entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opscope.compiler.api import Compilation, Configuration, compile_to, planned_module
from opscope.compiler.target import binary
from opscope.compiler.target.host_program import HostProgram, Instruction, Operand, QueueSettings
from opscope.compiler.target.plan import Plan
from opscope.compiler.target.program import Binary
from opscope.simulator.api import BadBinary, BadInput, Device, Executable
from opscope.simulator.program_run import ProgramRun

TEXT = b"""func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.tanh %0 : tensor<32x32xf32>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %3 = stablehlo.add %1, %2 : tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
}"""
X, W, Y = "arg0", "arg1", "output0"


@pytest.fixture(scope="module")
def planned() -> Binary:
    """Three ops in two epochs, with queues between them."""
    configuration = Configuration()
    configuration.set_configuration_options(enable_auto_fusing=False)
    configuration.set_epoch_break("add_0")
    return binary.read(planned_module(compile_to(Compilation(TEXT, "n150", configuration, "two"))).program)


@pytest.fixture(scope="module")
def loaded(planned: Binary) -> Executable:
    return Device("n150").load_decoded(planned)


def batches(count: int) -> tuple[list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal((1, 32, 64), np.float32) for _ in range(count)], random.standard_normal(
        (1, 64, 32), np.float32
    )


@pytest.mark.parametrize("per_core", [False, True])
def test_programs_give_the_bits_of_one_pass(loaded: Executable, per_core: bool) -> None:
    """Five microbatches in calls of two, two and one: pointers and static variables go on from call to call."""
    inputs, weights = batches(5)
    run = ProgramRun(loaded, per_core=per_core)
    run.push(W, weights)
    results = []
    for call in (inputs[:2], inputs[2:4], inputs[4:]):
        for array in call:
            run.push(X, array)
        graphs = [epoch.graph for epoch in loaded.plan.epochs]
        assert len(graphs) == 2
        assert run.run("run_fwd_0", {"p_loop_count": len(call)}) == graphs * len(call)
        results += [run.pop(Y) for _ in call]
    order = [{X: array, W: weights} for array in inputs]
    names = [queue.name for queue in loaded.plan.queues if queue.source == "HOST"]
    for content, result in zip(order, results, strict=True):
        (expected,) = loaded.run([content[name] for name in names]).outputs
        np.testing.assert_array_equal(result, expected)
        z = np.tanh(content[X][0] @ weights[0])
        np.testing.assert_allclose(result[0], z + z.T, atol=0.15)
    assert run.profile.total_cycles > 0


def test_a_full_queue_and_an_empty_one_are_errors(loaded: Executable) -> None:
    inputs, weights = batches(3)
    run = ProgramRun(loaded)
    run.push(X, inputs[0])
    with pytest.raises(BadInput, match="expected entry 0 of arg1 to be written, got none; try push"):
        run.run("run_fwd_0")
    run = ProgramRun(loaded)
    run.push(W, weights)
    for array in inputs[:2]:
        run.push(X, array)
    with pytest.raises(BadInput, match="expected arg0 to have room, got 2 entries"):
        run.push(X, inputs[2])
    with pytest.raises(BadInput, match="expected an entry in output0, got none"):
        run.pop(Y)
    with pytest.raises(BadInput, match="expected entry 0 of arg0 to be written"):
        run.run("run_fwd_0", {"p_loop_count": 3})
    for array in inputs[:2]:
        run.push(X, array)
    with pytest.raises(BadInput, match="expected output0 to have room, got 2 entries that nobody popped"):
        run.run("run_fwd_0", {"p_loop_count": 2})
    for call, message in (
        (lambda: run.push(Y, inputs[0]), "expected a queue that the host fills"),
        (lambda: run.push("z", inputs[0]), "expected one of arg0"),
        (lambda: run.pop(X), "expected a queue that an op fills"),
        (lambda: run.push(W, weights[0]), r"expected arg1 of float32\[1, 64, 32\], got float32\[64, 32\]"),
    ):
        with pytest.raises(BadInput, match=message):
            call()


def with_program(planned: Binary, *lines: Instruction) -> ProgramRun:
    plan = replace(planned.plan, programs=(HostProgram("run", lines),))
    return ProgramRun(Device("n150").load_decoded(replace(planned, plan=plan)))


def test_what_another_chips_graph_computes_comes_without_a_queue(planned: Binary, loaded: Executable) -> None:
    """The second epoch is on a second chip, and reads both results of the first as the NoC and Ethernet bring them."""
    plan = planned.plan
    between = {queue.name for queue in plan.queues if queue.source != "HOST" and queue.name != Y}
    assert between
    lines = tuple(
        replace(line, settings=tuple(setting for setting in line.settings if setting.queue not in between))
        for line in plan.programs[0].instructions
        if not set(line.names) & between
    )
    apart = replace(
        plan,
        epochs=tuple(replace(epoch, chip=epoch.number) for epoch in plan.epochs),
        ops=tuple(replace(op, chip=op.epoch) for op in plan.ops),
        queues=tuple(queue for queue in plan.queues if queue.name not in between),
        programs=(replace(plan.programs[0], instructions=lines),),
    )
    two = replace(planned, chip_ids=(0, 1), harvested=(0, 0), plan=apart)
    run = ProgramRun(Device("n150").load_decoded(two))
    inputs, weights = batches(2)
    run.push(W, weights)
    for array in inputs:
        run.push(X, array)
    run.run("run_fwd_0", {"p_loop_count": 2})
    names = [queue.name for queue in plan.queues if queue.source == "HOST"]
    for array in inputs:
        (expected,) = loaded.run([{X: array, W: weights}[name] for name in names]).outputs
        np.testing.assert_array_equal(run.pop(Y), expected)
    second = HostProgram("second", (Instruction("execute", graph=plan.epochs[1].graph),))
    alone = ProgramRun(Device("n150").load_decoded(replace(two, plan=replace(apart, programs=(second,)))))
    with pytest.raises(BadInput, match="expected the chip that sends to"):
        alone.run("second")


def test_settings_act_and_unknown_ones_are_refused(planned: Binary) -> None:
    """`zero` fills a ram with zeros; a pointer that is set by number repeats an entry; queues can be emptied."""
    first, second = (epoch.graph for epoch in planned.plan.epochs)

    def settings(**values: int) -> tuple[QueueSettings, ...]:
        return (
            QueueSettings(W, tuple(values), tuple(Operand("", value) for value in values.values())),
            QueueSettings(X, ("rd_ptr_local",), (Operand(),)),
        )

    between = [queue.name for queue in planned.plan.queues if queue.name.startswith("e2e")]
    both = (Instruction("execute", graph=first, settings=settings(zero=1)), Instruction("execute", graph=second))
    run = with_program(planned, *both)
    inputs, weights = batches(1)
    run.push(W, weights)
    run.push(X, inputs[0])
    run.run("run")
    np.testing.assert_array_equal(run.pop(Y), np.zeros((1, 32, 32), np.float32))
    run = with_program(planned, both[0], Instruction("deallocate_queue", tuple(between)), both[1])
    run.push(W, weights)
    run.push(X, inputs[0])
    with pytest.raises(BadInput, match=r"expected entry 0 of e2e_.* to be written"):
        run.run("run")
    strange = with_program(planned, Instruction("execute", graph=first, settings=settings(write_only=1)))
    strange.push(W, weights)
    with pytest.raises(BadBinary, match=r"expected settings of arg1 among .*, got write_only"):
        strange.run("run")
    gradient = QueueSettings(Y, ("epilogue",), (Operand("", 1),))
    summed = with_program(planned, Instruction("execute", graph=first, settings=(gradient,)))
    with pytest.raises(BadBinary, match="expected a ram for results that add up in L1, got queue output0"):
        summed.run("run")
    with pytest.raises(BadBinary, match="expected a program of run, got 'walk'"):
        strange.run("walk")
    with pytest.raises(BadBinary, match="expected programs, got none"):
        ProgramRun(Device("n150").load_decoded(replace(planned, plan=Plan())))
