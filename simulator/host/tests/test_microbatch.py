"""A push brings a microbatch: a program is compiled for one of its inputs, and runs on each, forward and backward."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from opscope import pybuda
from opscope.simulator.device import Device
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.microbatch import joined, joined_shape, one_by_one, size_of
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, card, layer, near
from opscope.simulator.program_run import ProgramRun

RANDOM = np.random.default_rng(3)
FOUR = RANDOM.standard_normal((4, 1, 32, 64)).astype(np.float32)
PROCESSES = pytest.mark.parametrize("sequential", [True, False], ids=["sequential", "processes"])


class Reshaped(pybuda.PyBudaModule):
    """Takes the batch away: (1, 1, 32, 64) becomes (1, 32, 64), or (32, 64)."""

    def __init__(self, name: str, shape: tuple[int, ...] = (1, 32, 64)) -> None:
        super().__init__(name)
        self.shape = shape

    def forward(self, act: Any) -> Any:
        return pybuda.op.Reshape(f"{self.name}.r", pybuda.op.Tanh(f"{self.name}.tanh", act), self.shape)


class Masked(pybuda.PyBudaModule):
    """Adds a second input, and what all inputs of the program share."""

    def forward(self, act: Any, mask: Any) -> Any:
        return pybuda.op.Add(f"{self.name}.add", act, mask)


def test_a_microbatch_is_taken_apart_and_joined_again() -> None:
    shared, scalar = np.ones((1, 2)), np.float32(3)
    assert size_of("a", [FOUR, shared, scalar]) == 4
    each = one_by_one("a", [FOUR, shared, scalar], 4)
    assert [one[0].shape for one in each] == [(1, 1, 32, 64)] * 4
    assert all(one[1] is shared for one in each)
    assert np.array_equal(joined([[one[0]] for one in each])[0], FOUR)
    assert one_by_one("a", [FOUR], 1)[0][0] is FOUR
    assert joined([[np.zeros((32, 64))]] * 3)[0].shape == joined_shape((32, 64), 3) == (3, 32, 64)
    assert joined([[np.float32(0)]] * 3)[0].shape == joined_shape((), 3) == (3,)
    with pytest.raises(PyBudaError, match="a: expected a leading size of 4, as input 0 has, or of 1, got 2 of input 1"):
        size_of("a", [FOUR, FOUR[:2]])
    with pytest.raises(PyBudaError, match="a: expected a leading size of 1, as input 0 has, or of 1, got 4 of input 1"):
        size_of("a", [shared, FOUR])
    with pytest.raises(PyBudaError, match="expected a microbatch of 1 input or more, got 0"):
        size_of("a", [FOUR[:0]])
    with pytest.raises(PyBudaError, match="a: expected a tensor as input 1, got a dict; try a module that takes"):
        size_of("a", [FOUR, {"x": FOUR}])
    with pytest.raises(PyBudaError, match="a: expected a microbatch of 4 inputs, got a leading size of 2 of input 0"):
        one_by_one("a", [FOUR[:2]], 4)


@PROCESSES
@pytest.mark.parametrize("shape", [(1, 32, 64), (32, 64)])
def test_a_module_is_compiled_for_one_input_and_runs_on_each(sequential: bool, shape: tuple[int, ...]) -> None:
    device = card(module=Reshaped("m", shape))
    made = pybuda.run_inference(inputs=[FOUR, -FOUR], _sequential=sequential)
    for pushed in (FOUR, -FOUR):
        (output,) = made.get()
        assert output.shape == (4, 32, 64)
        assert near(output.value(), np.tanh(pushed[:, 0]))
    assert device.compiled[0].outputs[0][1] == shape
    with pytest.raises(PyBudaError, match="a: expected a microbatch of 4 inputs, got a leading size of 2 of input 0"):
        device.push_to_inputs(FOUR[:2])


def test_a_tensor_of_leading_size_1_is_that_of_all_inputs() -> None:
    card(module=Masked("m"))
    mask = RANDOM.standard_normal((1, 1, 32, 64)).astype(np.float32)
    (output,) = pybuda.run_inference(inputs=[(FOUR, mask)], _sequential=True).get()
    assert near(output.value(), FOUR + mask)
    with pytest.raises(PyBudaError, match="got a leading size of 3 of input 1"):
        pybuda.run_inference(inputs=[(FOUR, FOUR[:3])], _sequential=True)


@PROCESSES
def test_devices_in_a_row_hand_on_whole_microbatches(sequential: bool) -> None:
    first, second = Reshaped("m"), Layer("n")
    one, two = card(module=first), pybuda.TTDevice("b", arch=WORMHOLE, module=second)
    between: Any = queue.Queue()
    made = pybuda.initialize_pipeline(training=False, sample_inputs=(FOUR,), d2d_fwd_queues=[between])
    one.push_to_inputs(FOUR)
    pybuda.run_forward(_sequential=sequential)
    assert near(made.get()[0].value(), layer(second.weights, second.bias, np.tanh(FOUR[:, 0])))
    assert between.get()[0].shape == (4, 32, 64)
    assert (one.microbatch, two.microbatch) == (4, 4)


def test_the_reference_and_the_cpu_take_one_input_after_the_other() -> None:
    device = card(module=Reshaped("m"))
    verify = pybuda.verify.VerifyConfig(pcc=0.99)
    pybuda.run_inference(inputs=[FOUR], _sequential=True, _verify_cfg=verify).get()
    (evaluated,) = device.cpueval_forward([FOUR], {}, False)
    assert np.allclose(evaluated, np.tanh(FOUR[:, 0]), atol=1e-6)
    pybuda.shutdown()
    pybuda.CPUDevice("cpu", module=Reshaped("m"))
    (output,) = pybuda.run_inference(inputs=[FOUR], _sequential=True).get()
    assert np.allclose(output.value(), np.tanh(FOUR[:, 0]), atol=1e-6)


def test_gradients_of_the_cpu_add_up_over_a_microbatch() -> None:
    module = Layer("m")
    device = card(module=module)
    device.cpueval_forward([FOUR], {}, True)
    incoming = RANDOM.standard_normal((4, 1, 32, 64)).astype(np.float32)
    (of_input,), of_parameters = device.cpueval_backward([incoming], {})
    slope = incoming * (1 - layer(module.weights, module.bias, FOUR) ** 2)
    assert np.allclose(of_input, slope @ module.weights.value().T, atol=1e-3)
    assert np.allclose(of_parameters["m.bias"], slope.sum((0, 1, 2)), atol=1e-3)


def test_the_first_input_stays_the_first_until_it_is_taken() -> None:
    device = card()
    assert device.get_first_inputs(peek=True) == (None, None)
    device.push_to_inputs(FOUR)
    device.push_to_inputs(-FOUR)
    size, (first,) = device.get_first_inputs()
    assert size == 4
    assert np.array_equal(first.value(), FOUR[:1])
    assert len(device.inputs) == 2
    device.push_to_target_inputs(FOUR)
    assert np.array_equal(device.get_first_targets()[0].value(), FOUR[:1])
    device.push_to_inputs(FOUR)
    with pytest.raises(PyBudaError, match="a: expected a microbatch of 4 inputs, as was pushed first, got 2"):
        device.push_to_inputs(FOUR[:2])


def test_compile_for_takes_one_input_and_the_size_of_the_microbatch() -> None:
    module = Layer("m")
    device = card(module=module)
    (made,) = device.compile_for((pybuda.Tensor((1, 1, 32, 64)),), None, microbatch_size=4)
    assert made.shape == (1, 1, 32, 64)
    (output,) = pybuda.run_inference(inputs=[FOUR], _sequential=True).get()
    assert near(output.value(), layer(module.weights, module.bias, FOUR))


def test_the_netlist_says_the_microbatch_and_runs_all_of_it() -> None:
    pybuda.set_configuration_options(enable_auto_fusing=False)
    pybuda.set_epoch_break("m.tanh")
    module = Layer("m")
    device = card(module=module)
    device.compile_for((pybuda.Tensor((1, 1, 32, 64)),), None, microbatch_size=4)
    compilation = device.compiled[0].compilation
    assert compilation.program is not None
    netlist = yaml.load(compilation.netlist_text, yaml.CSafeLoader)
    assert {graph["input_count"] for graph in netlist["graphs"].values()} == {4}
    ((_, instructions),) = netlist["programs"][0].items()
    assert instructions[1]["var"]["$c_microbatch_size"] == 4
    entries = {one["input"]: one["entries"] for one in netlist["queues"].values() if one["type"] == "queue"}
    assert sorted(entries.values()) == [4, 8, 8]
    loaded = Device(compilation.board).load_decoded(compilation.program.binary)
    filled = [one for one in loaded.plan.queues if one.source == "HOST"]
    shapes = [loaded.program.tensors[one.tensor].shape for one in filled]
    drawn = [[RANDOM.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(4)]
    kept = [one.kind == "ram" for one in filled]
    inputs = [[drawn[0][i] if same else row[i] for i, same in enumerate(kept)] for row in drawn]
    run = ProgramRun(loaded)
    for row in inputs:
        for one, value in zip(filled, row, strict=True):
            run.push(one.name, value)
    assert len(run.run("run_fwd_0", {"p_loop_count": 1})) == 2
    (output,) = (one.name for one in loaded.plan.queues if one.source == "m.tanh")
    for row in inputs:
        assert np.array_equal(run.pop(output), loaded.run(row).outputs[0])


@pytest.mark.slow
@pytest.mark.parametrize("target", [(4, 1, 32, 64), (1, 1, 32, 64)], ids=["each", "shared"])
def test_gradients_of_a_microbatch_are_those_of_its_inputs(target: tuple[int, ...]) -> None:
    goal = RANDOM.standard_normal(target).astype(np.float32)
    got = []
    for pushed in ([(FOUR, goal)], [(FOUR[i : i + 1], goal[i % len(goal)][None]) for i in range(4)]):
        module = Layer("m")
        device = card(module=module, fp32_fallback=pybuda.DataFormat.Float32)
        device.place_loss_module(pybuda.op.loss.L1Loss("loss"))
        for act, wanted in pushed:
            device.push_to_inputs(act)
            device.push_to_target_inputs(wanted)
        losses: Any = pybuda.initialize_pipeline(training=True) and pybuda.get_loss_queue()
        pybuda.run_forward(input_count=len(pushed), _sequential=True)
        pybuda.run_backward(input_count=len(pushed), zero_grad=True, _sequential=True)
        loss = np.concatenate([np.ravel(losses.get().value()) for _ in pushed])
        (gradients,) = pybuda.get_parameter_gradients()
        got.append((loss, {name: value.value() for name, value in gradients.items()}))
        pybuda.shutdown()
    (whole, of_whole), (single, of_single) = got
    assert np.array_equal(whole, single)
    assert len(whole) == 4
    assert all(np.array_equal(of_whole[name], value) for name, value in of_single.items())


@pytest.mark.slow
def test_gradients_go_back_over_two_devices_as_whole_microbatches() -> None:
    got = []
    for pushed in ([FOUR], [FOUR[i : i + 1] for i in range(4)]):
        options = {"fp32_fallback": pybuda.DataFormat.Float32, "arch": WORMHOLE}
        pybuda.TTDevice("a", module=Layer("m"), **options)
        last = pybuda.TTDevice("b", module=Layer("n"), **options)
        last.place_loss_module(pybuda.op.loss.L1Loss("loss"))
        back: Any = queue.Queue()
        for act in pushed:
            pybuda.pybudaglobal.get_devices()[0].push_to_inputs(act)
            last.push_to_target_inputs(0 * act)
        pybuda.initialize_pipeline(training=True, d2d_bwd_queues=[back])
        pybuda.run_forward(input_count=len(pushed), _sequential=True)
        pybuda.run_backward(input_count=len(pushed), zero_grad=True, _sequential=True)
        first, _ = pybuda.get_parameter_gradients()
        got.append((first["m.weights"].value(), np.concatenate([back.get()[0].value() for _ in pushed])))
        pybuda.shutdown()
    assert np.array_equal(got[0][0], got[1][0])
    assert np.array_equal(got[0][1], got[1][1])
    assert got[0][1].shape == FOUR.shape


@PROCESSES
def test_an_image_says_the_microbatch_and_runs_it(tmp_path: Path, sequential: bool) -> None:
    module = Reshaped("m")
    image = card(module=module).compile_to_image(img_path=tmp_path / "a.tti", sample_inputs=(FOUR,))
    assert image.get_input_shapes() == [[4, 1, 32, 64]]
    assert "ordered input shapes: [[4, 1, 32, 64]]" in image.info_text()
    (made,) = image.run([FOUR])
    assert near(made, np.tanh(FOUR[:, 0]))
    with pytest.raises(ValueError, match="expected a microbatch of 4 inputs, got a leading size of 2"):
        image.run([FOUR[:2]])
    pybuda.shutdown()
    device = pybuda.TTDevice.load_image(img=image)
    device.push_to_inputs(FOUR)
    (output,) = pybuda.run_inference(_sequential=sequential).get()
    assert np.array_equal(output.value(), made)
    with pytest.raises(PyBudaError, match="expected a microbatch of 4 inputs, got a leading size of 3"):
        device.push_to_inputs(FOUR[:3])
