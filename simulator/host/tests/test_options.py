"""Options, breaks, precisions and files of the Python API reach the plan and the run."""

from __future__ import annotations

import inspect
import json
import queue
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.options import configuration
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, near


def test_breaks_sizes_and_precisions_reach_the_plan() -> None:
    query = pybuda.query
    predicate = query.op_type("matmul") & query.name_regex(r"second\..*").negate() | query.op_type("none")
    assert query.NodePredicateBuilder.from_json(predicate.to_json()).to_json() == predicate.to_json()
    pybuda.set_epoch_break(query.op_type("tanh"))
    pybuda.override_op_size("one.product", (1, 2))
    pybuda.configure_mixed_precision(
        op_type="matmul",
        output_df=pybuda.DataFormat.Bfp8_b,
        math_fidelity=pybuda.MathFidelity.LoFi,
        input_df={1: (pybuda.DataFormat.Bfp4_b, True)},
    )
    device = pybuda.TTDevice("a", arch=WORMHOLE, module=Layer("one"))
    device.compile_modules([X])
    compilation = device.compiled[0].compilation
    assert compilation.plan is not None
    assert [len(epoch.placements) > 0 for epoch in compilation.plan.epochs] == [True, True]
    product = compilation.plan.graph.node("one.product")
    assert (product.data_format, product.spec.math_fidelity) == ("Bfp8_b", "LoFi")
    weights = next(e.producer for e in compilation.plan.graph.operands("one.product") if e.operand == 1)
    assert compilation.plan.graph.node(weights).data_format == "Bfp4_b"
    assert compilation.plan.choices["one.product"].model.grid.c == 2
    pybuda.set_chip_break(query.op_type("conv2d"))
    other = pybuda.TTDevice("b", arch=WORMHOLE, module=Layer("two"))
    with pytest.raises(PyBudaError, match="expected ops that the predicate matches, got none"):
        other.compile_modules([X])
    assert configuration().epoch_breaks


class Attention(pybuda.PyBudaModule):
    """A softmax of a product with the sum of two parameters."""

    def __init__(self) -> None:
        super().__init__("one")
        self.first, self.second = pybuda.Parameter(64, 64), pybuda.Parameter(64, 64)

    def forward(self, x: Any) -> Any:
        weights = pybuda.op.Add("sum", self.first, self.second)
        return pybuda.op.Softmax("soft", pybuda.op.Matmul("product", x, weights), dim=-1)


def _nodes(**options: Any) -> tuple[set[str], np.ndarray]:
    """The names of the graph's ops, and the result."""
    pybuda.pybuda_reset()
    pybuda.set_configuration_options(**options)
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=Attention())
    result = pybuda.run_inference(inputs=[X], sequential=True).get()[0].value()
    graph = device.compiled[0].compilation.graph
    assert graph is not None
    return {node.name for node in graph.ops}, result


def test_what_an_op_is_decomposed_into_has_its_name() -> None:
    pybuda.set_configuration_options(enable_auto_fusing=False)
    pybuda.set_epoch_break("soft.dc.exp.2")
    pybuda.override_op_size("soft.dc.subtract.1", (1, 1))
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=Attention())
    device.compile_modules([X])
    plan = device.compiled[0].compilation.plan
    assert plan is not None
    assert [epoch.placements[0].op.name for epoch in plan.epochs] == ["product", "soft.dc.exp.2"]
    assert plan.choices["soft.dc.subtract.1"].model.grid.c == 1


def test_softmaxes_need_no_maximum_and_parameters_may_stay_on_the_card() -> None:
    ops, stable = _nodes()
    assert "sum" not in ops
    without, unstable = _nodes(enable_stable_softmax=False)
    assert len(without) < len(ops)
    assert near(unstable, stable)
    kept_ops, same = _nodes(enable_consteval=False)
    assert kept_ops == ops | {"sum"}
    assert near(same, stable)


def test_a_trace_and_the_back_ends_files_are_written(tmp_path: Path) -> None:
    trace = tmp_path / "perf_results" / "tt0_one.json"
    _nodes(performance_trace=pybuda.PerfTraceLevel.VERBOSE, backend_output_dir=str(tmp_path))
    document = json.loads(trace.read_text())
    assert document["total_cycles"] == sum(epoch["cycles"] for epoch in document["epochs"]) > 0
    assert all(op["cycles"] > 0 for op in document["ops"] if op["kernel"] == "matmul")
    assert {"product", "soft"} <= {op["name"] for op in document["placed_ops"]}
    assert (tmp_path / "one_netlist.yaml").is_file()
    assert (tmp_path / "hlks").is_dir()
    _nodes(performance_trace=pybuda.PerfTraceLevel.LIGHT, backend_output_dir=str(tmp_path))
    assert set(json.loads(trace.read_text())["ops"][0]) == {"kernel", "location", "cycles"}


def test_of_several_programs_each_has_a_folder_of_the_back_ends_files(tmp_path: Path) -> None:
    pybuda.set_configuration_options(backend_output_dir=str(tmp_path))
    pybuda.TTDevice("a", arch=WORMHOLE, module=Layer("one"))
    optimizer = pybuda.optimizers.SGD(learning_rate=0.1, device_params=True)
    last = pybuda.TTDevice("b", arch=WORMHOLE, module=Layer("two"), optimizer=optimizer)
    pybuda.run_inference(inputs=[X], _sequential=True).get()
    assert {"one", "two"} == {path.parent.name for path in tmp_path.rglob("*_netlist.yaml")}
    last.place_loss_module(pybuda.op.loss.L1Loss("loss"))
    last.compile_for((X,), None, [np.zeros((1, 1, 32, 64), np.float32)])
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*_netlist.yaml")}
    assert {f"b.{kind}/b.{kind}_netlist.yaml" for kind in ("forward", "backward", "optimizer")} <= written


def test_a_card_is_described_by_files(tmp_path: Path) -> None:
    descriptor, params = tmp_path / "device.yaml", tmp_path / "params" / "runtime.yaml"
    rows = [row for row in range(1, 12) if row not in (1, 6, 11)]
    workers = [f"{column}-{row}" for row in rows for column in range(1, 13)]
    descriptor.write_text(f"arch_name: GRAYSKULL\nfunctional_workers: {workers}\n")
    pybuda.set_configuration_options(
        backend_device_descriptor_path=str(descriptor),
        store_backend_db_to_yaml=True,
        backend_runtime_params_path=str(params),
    )
    assert pybuda.detect_available_devices() == [pybuda.BackendDevice.Grayskull]
    device = pybuda.TTDevice("tt0", module=Layer("one"))
    device.compile_modules([X])
    assert device.compiled[0].compilation.program is not None
    assert device.compiled[0].compilation.program.binary.harvested == (2050,)
    pybuda.pybuda_reset()
    pybuda.set_configuration_options(backend_runtime_params_path=str(params))
    assert pybuda.TTDevice("tt0").board == "e150"
    assert configuration().device == ("e150", 2050)
    preset = {"system-device0-harvesting_mask": 2052, "system-device0-type": "WORMHOLE_B0"}
    params.write_text(json.dumps({"arch_level_params": {}, "system_level_params": preset}))
    assert configuration().device == ("n150", 2052)
    params.write_text(json.dumps({"system_level_params": preset | {"system-device1-type": "GRAYSKULL"}}))
    with pytest.raises(PyBudaError, match="system_level_params: expected chips of grayskull or wormhole_b0"):
        pybuda.ttdevice.get_device_config(WORMHOLE)
    descriptor.write_text("arch_name: grayskull\nfunctional_workers: [1-6]\n")
    pybuda.pybuda_reset()
    pybuda.set_configuration_options(backend_device_descriptor_path=str(descriptor))
    with pytest.raises(PyBudaError, match="expected rows 1-5 and 7-11, got 6"):
        pybuda.TTDevice("tt1")


def test_what_a_program_may_ask_of_its_devices() -> None:
    module = Layer("one")
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    device.push_to_inputs(X)
    for _ in range(2):
        size, (first,) = device.get_first_inputs(peek=True)
        assert size == 1
        assert first.value() is X
    device.get_first_inputs()
    assert device.get_first_inputs(peek=True) == (None, None)
    with pytest.raises(PyBudaError, match="tt0: expected inputs that were pushed, got none; try push_to_inputs"):
        device.get_first_inputs()
    with pytest.raises(PyBudaError, match="tt0: expected targets that were pushed, got none"):
        device.get_first_targets()
    graph, outputs, _, _, _ = device.generate_graph(pybuda.Tensor(X.shape))
    assert graph.node("one.product").spec.type == "matmul"
    assert outputs[0].shape == X.shape
    queues, _, shapes = device.get_dram_io_queues("output")
    assert (len(queues), shapes) == (1, [(1, 32, 64)])
    assert {p.get_name() for p in device.get_parameters()} == {"one.weights", "one.bias"}
    module.insert_tapout_queue_for_op("one.product", 0)
    for saves in (False, True):
        (evaluated,) = device.cpueval_forward([X], {"one.bias": np.zeros(64, np.float32)}, saves)
        assert np.allclose(evaluated, np.tanh(X @ module.weights.value()), atol=1e-4)
    with pytest.raises(PyBudaError, match="tt0: expected training before get_optimizer_params, got none"):
        device.get_optimizer_params(True)
    with pytest.raises(PyBudaError, match="tt0: expected a type of input, parameter, output, got 'none'"):
        device.get_dram_io_queues("none")
    device.remove_modules()
    cpu = pybuda.CPUDevice("cpu0", module=module)
    assert cpu.compile_for((X,), None)[0].shape == X.shape
    assert set(cpu.pop_parameter_checkpoint()) == {"one.weights", "one.bias"}


def test_a_device_carries_out_commands() -> None:
    from opscope.simulator.host.devices.commands import Command

    made: Any = Command
    first = pybuda.TTDevice("a", arch=WORMHOLE, module=Layer("one"))
    last = pybuda.TTDevice("b", arch=WORMHOLE, module=Layer("two"))
    first.push_to_inputs(X)
    first.push_to_command_queue(made.run_forward(1))
    first.push_to_command_queue(made.dc_transfer("forward"))
    first.push_to_command_queue(made.sync())
    for _ in range(3):
        command = first.get_next_command(first.command_queue)
        assert command is not None
        assert not first.run_next_command(command)
    assert first.get_command_queue_response() == {"sync": True}
    transfers: queue.Queue[Any] = queue.Queue()
    for command in (made.compile([X], None, [], 1, 1, None), made.run_forward(loop_count=1), made.get_queues("input")):
        last.push_to_command_queue(command)
    last.push_to_command_queue(made.get_parameter_checkpoint())
    last.push_to_command_queue(made.quit())
    for word in ("forward", "quit"):
        transfers.put(word)
    answers = []
    while not last.command_queue.empty():
        command = last.get_next_command(last.command_queue)
        assert command is not None
        if command.command_type.name == "QUIT":
            last.push_to_command_queue(command)
            last.dc_transfer_thread("forward", transfers)
            answers = [last.get_command_queue_response() or {} for _ in range(4)]
            last.run("")
        else:
            last.run_next_command(command)
    assert [sorted(answer) for answer in answers] == [
        ["outputs"],
        ["original_shapes", "queues", "tile_broadcast_dims"],
        ["checkpoint"],
        ["outputs"],
    ]
    assert last.closed
    assert last.get_command_queue_response() is None
    inner = np.tanh(X @ first.modules[0].get_parameters()[0].value() + first.modules[0].get_parameters()[1].value())
    (weights, bias) = (np.asarray(value.value()) for value in answers[2]["checkpoint"].values())
    assert near(answers[3]["outputs"][0], np.tanh(inner @ weights + bias))
    with pytest.raises(PyBudaError, match="a: expected loop_count with the command run_forward, got"):
        first.run_next_command(made.run_forward())
    with pytest.raises(PyBudaError, match="a: expected a command that runs inputs forward before a transfer, got none"):
        first.dc_transfer("forward")
    with pytest.raises(PyBudaError, match=r"a: expected a direction of forward_input, .*, got 'up'"):
        first.dc_transfer("up")


def test_the_cpu_evaluates_forward_and_backward() -> None:
    """The gradients of tanh(x w + b), by hand."""
    module = Layer("one")
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    with pytest.raises(PyBudaError, match=r"expected cpueval_forward\(.*\) before cpueval_backward, got none"):
        device.cpueval_backward([X], {})
    bias = np.full(64, 0.1, np.float32)
    (output,) = device.cpueval_forward([X], {"one.bias": bias}, True)
    incoming = np.random.default_rng(3).standard_normal(output.shape).astype(np.float32)
    (of_x,), of_weights = device.cpueval_backward([incoming], {"one.bias": bias})
    weights = module.weights.value()
    inner = incoming * (1 - np.tanh(X @ weights + bias) ** 2)
    rows, columns = X.reshape(-1, X.shape[-1]), inner.reshape(-1, inner.shape[-1])
    assert np.allclose(of_x, inner @ np.asarray(weights).T, atol=1e-3)
    assert np.allclose(of_weights["one.weights"], rows.T @ columns, atol=1e-3)
    assert np.allclose(of_weights["one.bias"].ravel(), columns.sum(0), atol=1e-3)
    with pytest.raises(PyBudaError, match=r"tt0: expected gradients of shapes .*, as its outputs have, got"):
        device.cpueval_backward([incoming[..., :3]], {})
    with pytest.raises(PyBudaError, match=r"expected parameters of one\.weights, one\.bias, got 'two'"):
        device.cpueval_backward([incoming], {"two": bias})
    with pytest.raises(PyBudaError, match="tt0: expected a loss module for targets, got none"):
        device.cpueval_forward([X], {}, False, [X])
    device.place_loss_module(pybuda.op.loss.L1Loss("loss"))
    (loss,) = device.cpueval_forward([X], {}, False, [X])
    assert np.allclose(loss, np.abs(np.tanh(X @ weights + module.bias.value()) - X).mean(), atol=1e-4)


def test_chips_are_counted_and_named_where_both_agree() -> None:
    for number, given in enumerate(({"num_chips": 1, "chip_ids": []}, {"num_chips": 1, "chip_ids": [0]})):
        assert pybuda.TTDevice(f"tt{number}", arch=WORMHOLE, **given).chip_ids == [0]
    assert pybuda.TTDevice("both", arch=WORMHOLE, num_chips=2, chip_ids=[0, 3]).chip_ids == [0, 3]


def test_the_repository_of_operators_names_ops_that_are_there() -> None:
    from opscope.simulator.host.submodules import op_repo

    for each in op_repo.pybuda_operator_repository.operators:
        takes = inspect.signature(getattr(pybuda.op, each.full_name.rpartition(".")[2])).parameters
        assert {parameter.name for parameter in each.forward_params} <= takes.keys()
    ours = op_repo.pybuda_operator_repository
    assert ours.get_by_name("stack").input_num_range == op_repo.OperandNumRange(2, 4)
    layer = op_repo.pytorch_operator_repository.get_by_name("linear")
    assert layer.is_layer
    assert not layer.is_operator
    with pytest.raises(ValueError, match="one: expected a number of operands, or the least and the most, got 'two'"):
        op_repo.OperatorDefinition("one", "pybuda.op.One", "two")


def test_no_device_is_silicon_and_kinds_are_read_by_name() -> None:
    from opscope.simulator.host.submodules import ci

    pybuda.set_configuration_options(backend_output_dir="out")
    assert (ci.enabled(), ci.capture_tensors(), ci.get_netlist_dir()) == (False, False, "out")
    assert not pybuda.is_silicon(pybuda.BackendType.Silicon)
    assert pybuda.BackendType.from_string("golden") is pybuda.BackendType.Golden
    with pytest.raises(PyBudaError, match=r"BackendDevice: expected Grayskull, .*, got 'e150'"):
        pybuda.BackendDevice.from_string("e150")
