"""`pybuda_compile`, `CompileDepth` and what TT-Buda's tests ask beside them: each does what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from opscope import pybuda
from opscope.compiler.api import CompileDepth
from opscope.simulator.host import card_program
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.submodules.compare import calculate_pcc, compare_tensor_to_golden
from opscope.simulator.host.submodules.full_precision import LostByFormats
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, card, layer

BATCH = np.concatenate([X, -X])
NAMES = (
    *("INIT_COMPILE", "GENERATE_INITIAL_GRAPH", "POST_INITIAL_GRAPH_PASS", "CONSTEVAL_GRAPH", "POST_PATTERN_MATCHER"),
    *("OPTIMIZED_GRAPH", "AUTOGRAD", "POST_AUTOGRAD_PASS", "PRE_LOWERING_PASS", "BUDA_GRAPH_PRE_PLACER"),
    *("BALANCER_PASS", "PRE_NETLIST_PASS", "GENERATE_NETLIST", "BACKEND_GOLDEN_VERIFY", "FULL"),
)


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(**attributes: Any) -> pybuda.CompilerConfig:
    return pybuda.CompilerConfig(**attributes)


def test_depths_have_the_names_and_numbers_of_tt_buda() -> None:
    assert pybuda.CompileDepth is pybuda.config.CompileDepth is CompileDepth
    assert [(depth.name, depth.value) for depth in pybuda.CompileDepth] == [(n, i) for i, n in enumerate(NAMES)]


def test_of_pytorchs_tensors_goldens_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    made = pybuda.pybuda_compile(card(module=Layer("m")), "sanity", pybuda.Tensor(torch.from_numpy(X)))
    assert made.golden_outputs[0].squeeze(dim=0).shape == (1, 32, 64)


def test_a_device_is_compiled_and_what_it_computes_is_that_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Layer("m")
    made = pybuda.pybuda_compile(card(module=module), "sanity", pybuda.Tensor(X), verify_cfg=pybuda.VerifyConfig())
    assert np.allclose(made.golden_outputs[0], layer(module.weights, module.bias), atol=1e-4)
    assert made.outputs[0].value() is made.golden_outputs[0]
    assert made.initial_graph.node("m.product").spec.type == "matmul"
    assert made.netlist_filename == "tt_build/test_out/sanity_netlist.yaml"
    assert "queues" in yaml.load(Path(made.netlist_filename).read_text(), yaml.CSafeLoader)
    pybuda.shutdown()
    monkeypatch.setattr(card_program.CardProgram, "run", lambda *_: [np.cos(X)])  # a card that computes another thing
    with pytest.raises(PyBudaError, match=r"expected output 0 of the card to correlate with the CPU's by 0\.99"):
        pybuda.pybuda_compile(card(), "sanity", X, verify_cfg=pybuda.VerifyConfig())
    pybuda.shutdown()
    pybuda.pybuda_compile(card(), "sanity", X)  # which compares nothing


def test_a_configuration_counts_for_one_compilation_alone() -> None:
    device = card()
    pybuda.config._get_global_compiler_config().default_df_override = pybuda.DataFormat.Float32
    made = pybuda.pybuda_compile(device, "g", pybuda.Tensor(X.shape), compiler_cfg=config(), microbatch_size=2)
    netlist = yaml.load(Path(made.netlist_filename or "").read_text(), yaml.CSafeLoader)
    assert {queue["df"] for queue in netlist["queues"].values()} == {"Float16_b"}
    assert {graph["input_count"] for graph in netlist["graphs"].values()} == {2}
    assert (made.outputs[0].shape, made.outputs[0].has_value()) == (X.shape, False)
    made = pybuda.pybuda_compile(device, "g", X)
    netlist = yaml.load(Path(made.netlist_filename or "").read_text(), yaml.CSafeLoader)
    assert {queue["df"] for queue in netlist["queues"].values()} == {"Float32"}


@pytest.mark.slow
@pytest.mark.parametrize("loss", [False, True], ids=["outputs", "loss"])
def test_training_is_compiled_and_every_gradient_compared(loss: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = pybuda.optimizers.SGD(learning_rate=0.1, device_params=True)
    device = card(fp32_fallback=pybuda.DataFormat.Float32, optimizer=optimizer)
    targets: list[Any] = []
    if loss:
        device.place_loss_module(pybuda.op.loss.L1Loss("loss"))
        targets = [np.zeros_like(X)]
    options = {"compiler_cfg": config(enable_training=True), "verify_cfg": pybuda.VerifyConfig(pcc=0.98)}
    made = pybuda.pybuda_compile(device, "t", X, targets=targets, **options)
    assert sorted(device.programs) == ["backward", "forward", "optimizer"]
    assert made.initial_graph.name == "a.forward"
    run = card_program.CardProgram.run

    def wrong(self: card_program.CardProgram, inputs: Any) -> list[np.ndarray]:
        results = run(self, inputs)
        return (
            [np.random.default_rng(1).standard_normal(r.shape).astype(np.float32) for r in results]
            if (self.exported.name.endswith("backward"))
            else results
        )

    monkeypatch.setattr(card_program.CardProgram, "run", wrong)
    with pytest.raises(PyBudaError, match=r"expected gradient of .* to correlate with the CPU's by 0\.98"):
        pybuda.pybuda_compile(device, "t", X, targets=targets, **options)


def test_a_depth_ends_the_compilation_and_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    device = card()
    for depth in (
        CompileDepth.GENERATE_INITIAL_GRAPH,
        CompileDepth.BUDA_GRAPH_PRE_PLACER,
        CompileDepth.GENERATE_NETLIST,
    ):
        made = pybuda.pybuda_compile(device, "d", X, compiler_cfg=config(compile_depth=depth))
        assert device.compiled[0].compilation.reached is depth
        assert (made.initial_graph is None) is (depth < CompileDepth.BUDA_GRAPH_PRE_PLACER)
        assert (made.netlist_filename is None) is (depth < CompileDepth.GENERATE_NETLIST)
    pybuda.shutdown()
    pybuda.config._get_global_compiler_config().compile_depth = CompileDepth.BALANCER_PASS
    card()
    with pytest.raises(PyBudaError, match="expected a program that was compiled all the way, got one to BALANCER_PASS"):
        pybuda.run_inference(inputs=[X], _sequential=True)
    pybuda.shutdown()
    monkeypatch.setenv("PYBUDA_COMPILE_DEPTH", "generate_netlist")  # counts more
    device = card()
    device.compile_for((X,), None)
    assert device.compiled[0].compilation.reached is CompileDepth.GENERATE_NETLIST
    monkeypatch.setenv("PYBUDA_COMPILE_DEPTH", "half")
    with pytest.raises(PyBudaError, match="PYBUDA_COMPILE_DEPTH: depth: expected one of TT-Buda's, got 'half'"):
        pybuda.pybuda_compile(device, "d", X)


@pytest.mark.slow
def test_modules_in_a_row_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    verify = pybuda.verify.verify_module_pipeline
    options = pybuda.VerifyConfig(arch=WORMHOLE, verify_all=True, skip_shutdown=True)
    devices = verify(
        [Layer("a"), Layer("b"), Layer("c")],
        [BATCH.shape],
        options,
        device_types=["CPUDevice", "TTDevice"],
        params_centered_on_zero=True,
    )
    assert [[module.name for module in device.modules] for device in devices] == [["a"], ["b", "c"]]
    assert [device.microbatch for device in devices] == [2, 2]
    pybuda.pybuda_reset()
    pybuda.config._get_global_compiler_config().compile_depth = CompileDepth.BUDA_GRAPH_PRE_PLACER
    for one in verify([Layer("a"), Layer("b")], [BATCH.shape], options, device_types=["TTDevice", "TTDevice"]):
        assert isinstance(one, pybuda.TTDevice)
        assert one.compiled[0].compilation.reached is CompileDepth.BUDA_GRAPH_PRE_PLACER
    pybuda.pybuda_reset()
    monkeypatch.setattr(card_program.CardProgram, "run", lambda *_: [np.cos(X)])
    with pytest.raises(PyBudaError, match="verify: expected output 0 of the card to correlate with the framework's"):
        verify([Layer("a")], [], options, inputs=[(X,)])
    pybuda.pybuda_reset()
    with pytest.raises(PyBudaError, match="expected TTDevice, CPUDevice, or - behind one, got 'GPUDevice'"):
        verify([Layer("a")], [X.shape], options, device_types=["GPUDevice"])
    training = pybuda.VerifyConfig(test_kind=pybuda.verify.TestKind.TRAINING, arch=WORMHOLE)
    with pytest.raises(PyBudaError, match="cpu0: expected PyTorchModules to train on a CPU, got Layer"):
        verify([Layer("a")], [X.shape], training, device_types=["CPUDevice"])
    training.optimizer = {"type": "lamb", "params": {"learning_rate": 0.1}}
    with pytest.raises(PyBudaError, match="verify: expected sgd, adam or adamw to train a CPUDevice, got lamb"):
        verify([Layer("a")], [X.shape], training, device_types=["CPUDevice"])


class Halving(pybuda.LearningRateScheduler):
    """Half the rate of the epoch before."""

    def get_lr(self) -> float:
        return self.optimizer.learning_rate / 2


def trained(**options: Any) -> pybuda.VerifyConfig:
    """A configuration of training in float32."""
    defaults = {"test_kind": pybuda.verify.TestKind.TRAINING, "arch": WORMHOLE, "pcc": 0.98}
    return pybuda.VerifyConfig(**{**defaults, "fp32_fallback": pybuda.DataFormat.Float32, **options})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw", "lamb", "lars"])
def test_training_is_verified_step_by_step(kind: str) -> None:
    # Half a float holds no 0.999, of which Adam takes powers.
    pybuda.set_configuration_options(accumulate_df=pybuda.DataFormat.Float32, math_fidelity=pybuda.MathFidelity.HiFi4)
    rate = {"learning_rate": 0.05 if kind.startswith("adam") else 0.5}  # half a step of Adam's leaves tanh no slope
    verified = trained(optimizer={"type": kind, "params": rate}, steps=2, accumulation_steps=2, microbatch_count=2)
    pybuda.verify.verify_module(Layer("m"), [X.shape], verified, params_centered_on_zero=True)


@pytest.mark.slow
def test_schedules_microbatches_recomputation_and_devices_in_a_row_are_verified() -> None:
    optimizer = {"type": "sgd", "params": {"learning_rate": 50}}
    scheduled = trained(optimizer=optimizer, scheduler={"type": Halving}, epochs=2, skip_shutdown=True)
    device = pybuda.verify.verify_module_pipeline([Layer("m")], [BATCH.shape], scheduled, params_centered_on_zero=True)[
        0
    ]
    assert isinstance(device, pybuda.TTDevice)
    assert device.optimizer is not None
    assert device.optimizer.learning_rate == 12.5
    pybuda.pybuda_reset()
    recomputed = trained(test_kind=pybuda.verify.TestKind.TRAINING_RECOMPUTE, optimizer=optimizer)
    pybuda.verify.verify_module_pipeline(
        [Layer("a"), Layer("b")],
        [X.shape],
        recomputed,
        device_types=["TTDevice", "TTDevice"],
        loss_module=pybuda.op.loss.L1Loss("loss", reduction="sum"),
        params_centered_on_zero=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("CPUDevice", "TTDevice"), ("TTDevice", "CPUDevice")])
@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_the_cpu_is_trained_before_and_behind_a_card(kinds: tuple[str, str], kind: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    pybuda.set_configuration_options(accumulate_df=pybuda.DataFormat.Float32, math_fidelity=pybuda.MathFidelity.HiFi4)
    linear = [pybuda.PyTorchModule(f"m{number}", torch.nn.Linear(64, 64)) for number in range(2)]
    config = trained(optimizer={"type": kind, "params": {"learning_rate": 0.05}}, steps=2, accumulation_steps=2)
    before = [module.module.weight.detach().clone() for module in linear]
    pybuda.verify.verify_module_pipeline(linear, [(1, 32, 64)], config, device_types=kinds)
    assert all(not torch.equal(module.module.weight, old) for module, old in zip(linear, before, strict=True))


class Doubled(pybuda.PyBudaModule):
    """A module without parameters."""

    def forward(self, act: Any) -> Any:
        return pybuda.op.Tanh("tanh", pybuda.op.Add("twice", act, act))


def test_gradients_of_inputs_are_verified_also_where_nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    options = trained(test_kind=pybuda.verify.TestKind.TRAINING)
    pybuda.verify.verify_module(Doubled("m"), [BATCH.shape], options)
    run = card_program.CardProgram.run

    def other(self: card_program.CardProgram, inputs: Any) -> list[np.ndarray]:
        results = run(self, inputs)
        return [np.flip(v, -1) for v in results] if self.exported.name.endswith("backward") else results

    monkeypatch.setattr(card_program.CardProgram, "run", other)
    strict = trained(test_kind=pybuda.verify.TestKind.TRAINING, golden_ignore_df_precision=False)
    with pytest.raises(PyBudaError, match=r"verify: expected .*gradient of input 0.* to correlate with the CPU's"):
        pybuda.verify.verify_module(Doubled("m"), [X.shape], strict)
    without = trained(test_kind=pybuda.verify.TestKind.TRAINING, enable_input_gradient_checking=False)
    with pytest.raises(PyBudaError, match="expected parameters that require a gradient"):
        pybuda.verify.verify_module(Doubled("m"), [X.shape], without)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        # quick: the gradients of test_gradients_of_inputs_are_verified_also_where_nothing_is_trained
        pytest.param("backward", "gradient of", marks=pytest.mark.slow),
        ("optimizer", "after the step"),
    ],
)
def test_training_that_goes_wrong_is_named(wrong: str, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = card_program.CardProgram.run

    def other(self: card_program.CardProgram, inputs: Any) -> list[np.ndarray]:
        random, results = np.random.default_rng(1), run(self, inputs)
        noise = [random.standard_normal(result.shape).astype(np.float32) for result in results]
        return noise if self.exported.name.endswith(wrong) else results

    monkeypatch.setattr(card_program.CardProgram, "run", other)
    options = trained(optimizer={"type": "sgd", "params": {"learning_rate": 0.5}}, golden_ignore_df_precision=False)
    with pytest.raises(PyBudaError, match=f"verify: expected .*{named}.* to correlate with the CPU's"):
        pybuda.verify.verify_module(Layer("m"), [X.shape], options, params_centered_on_zero=True)
    with pytest.raises(PyBudaError, match=r"VerifyConfig: optimizer: expected a type of .*, got 'best'"):
        pybuda.verify.verify_module(Layer("m"), [X.shape], trained(optimizer={"type": "best"}))


def test_results_are_compared_as_tt_buda_compares_them() -> None:
    golden = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    near, far = golden + np.float32(0.05), golden[::-1]
    assert compare_tensor_to_golden("a", golden, near)
    assert not compare_tensor_to_golden("a", golden, golden + np.float32(0.2))
    assert compare_tensor_to_golden("a", golden, golden + np.float32(0.2), pcc=0.99)
    assert compare_tensor_to_golden("a", golden, golden + np.float32(0.2), atol={golden.dtype: 0.3})
    assert not compare_tensor_to_golden("a", golden, far, pcc=0.99)
    assert compare_tensor_to_golden("a", golden, far, pcc=0.99, warning_only=True)
    assert not compare_tensor_to_golden("a", golden, golden[:1])
    assert compare_tensor_to_golden("a", golden, np.pad(near, ((0, 30), (0, 28)))[None], is_buda=True)
    assert not compare_tensor_to_golden("a", golden > 0, golden < 0)
    assert calculate_pcc(golden, 2 * golden) == pytest.approx(1)
    assert calculate_pcc(golden, 0 * golden) == 0
    assert calculate_pcc(np.full(3, np.nan), np.full(3, np.nan)) == 1
    assert calculate_pcc(np.full(3, np.nan), np.ones(3)) == 0


def test_what_tests_ask_of_a_card_before_they_use_it() -> None:
    asked = pybuda.ttdevice.get_device_config(WORMHOLE, [0])
    assert (asked.grid_size.c, asked.chip_ids) == (8, (0,))
    fewer = pybuda.ttdevice.get_device_config(WORMHOLE, harvesting_mask=0b10010)
    assert fewer.grid_size.r == 8
    assert fewer.get_harvested_cfg() == 0b10010
    assert sorted(pybuda.verify.config.NebulaGalaxy.chip_ids) == list(range(33))


class Root(pybuda.PyBudaModule):
    """The root of a product, which numbers below 0 have none of."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.weights = pybuda.Parameter(64, 64)

    def forward(self, act: Any) -> Any:
        return pybuda.op.Sqrt("root", pybuda.op.Matmul("product", act, self.weights))


def test_values_of_a_verification_are_drawn_as_tt_buda_draws_them() -> None:
    options = pybuda.VerifyConfig(arch=WORMHOLE, skip_shutdown=True)
    module = Root("m")
    (device,) = pybuda.verify.verify_module(module, [(1, 64, 64)], options, scale_params=2.0)
    (weights,) = (np.asarray(parameter.value()) for parameter in module.get_parameters())
    assert weights.min() > 0
    assert abs(weights.mean() - 0.25) < 0.01
    assert isinstance(device, pybuda.TTDevice)
    pybuda.pybuda_reset()
    pybuda.verify.verify_module(module, [(1, 64, 64)], options, params_centered_on_zero=True)  # it has its value
    pybuda.pybuda_reset()
    with pytest.raises(PyBudaError, match="verify: scale_params: expected a number above 0, got 0"):
        pybuda.verify.verify_module(Root("n"), [(1, 64, 64)], options, scale_params=0)


class Kept(pybuda.PyBudaModule):
    """Parameters in a dictionary and a list, and a module in a list; a softmax over one number."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.named = {"gamma": pybuda.Parameter(64)}
        self.listed = [pybuda.Parameter(64)]
        self.layers = [Layer("inner")]

    def forward(self, act: Any) -> Any:
        moved = pybuda.op.Add("add", pybuda.op.Multiply("scaled", act, self.named["gamma"]), self.listed[0])
        return pybuda.op.Softmax("ones", self.layers[0](moved), dim=-3)


def test_parameters_in_lists_are_the_modules_and_constant_results_are_compared_by_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = Kept("m")
    assert {"m.gamma", "m.listed_0", "inner.weights"} < {p.get_name() for p in module.get_parameters()}
    module.set_parameter("gamma", np.full(64, 0.5, np.float32))
    options = pybuda.VerifyConfig(arch=WORMHOLE)
    pybuda.verify.verify_module(module, [(1, 32, 64)], options)
    monkeypatch.setattr(card_program.CardProgram, "run", lambda *_: [np.full((1, 32, 64), 0.9, np.float32)])
    with pytest.raises(
        PyBudaError, match=r"verify: expected output 0 of the card, of which nothing varies, .*, got 0.1 off"
    ):
        pybuda.verify.verify_module(Kept("m"), [(1, 32, 64)], options)


def test_devices_are_there_after_their_verification(tmp_path: Path) -> None:
    pybuda.set_configuration_options(backend_output_dir=str(tmp_path))
    for name in ("a", "b"):
        pybuda.verify.verify_module(Layer(name), [X.shape], pybuda.VerifyConfig(arch=WORMHOLE))
        (device,) = pybuda.pybudaglobal.get_devices()
        written = device._compile_output.netlist_filename
        assert written == str(tmp_path / f"{name}_netlist.yaml"), "the options are still there, too"
        assert "queues" in yaml.load(Path(written).read_text(), yaml.CSafeLoader)
        with pytest.raises(PyBudaError, match="push_to_inputs before shutdown"):
            device.push_to_inputs(X)
    pybuda.pybuda_reset()
    assert pybuda.pybudaglobal.get_devices() == []


@pytest.mark.parametrize("transposed", [False, True])
def test_the_placers_solution_says_where_ops_are(transposed: bool) -> None:
    pybuda.config.override_op_size("m.product", (1, 2))
    pybuda.config.override_op_placement("m.product", transpose_op=transposed)
    made = pybuda.pybuda_compile(card(), "g", pybuda.Tensor(X.shape))
    placed = made.pass_specific_output_kwargs["placer_solution"].name_to_op_placement["m.product"]
    assert (placed.placed_cores.size_r(), placed.placed_cores.size_c()) == ((2, 1) if transposed else (1, 2))
    assert placed.grid_transpose is transposed
    assert WORMHOLE.to_string() == "wormhole_b0"


class Rows(pybuda.PyBudaModule):
    """Sums of rows that are alike but for less than a step of Float16_b."""

    def forward(self, act: Any) -> Any:
        return pybuda.op.ReduceAvg("rows", act, -1)


NEAR_ONE = (1 + np.random.default_rng(3).random((1, 1, 64, 1)) / 128 + np.zeros(64)).astype(np.float32)


@pytest.mark.filterwarnings("ignore::opscope.simulator.host.devices.tt_device.SimulatedSilicon")
@pytest.mark.parametrize(
    "by_module",
    # quick: the other; that it compares too, test_a_device_is_compiled_and_what_it_computes_is_that_of_the_cpu
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["pybuda_compile", "verify_module"],
)
def test_a_golden_ignores_formats_unless_told_otherwise(by_module: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(
        kind: pybuda.BackendType = pybuda.BackendType.Golden,
        arch: pybuda.BackendDevice = WORMHOLE,
        **options: Any,
    ) -> pybuda.TTDevice:
        pybuda.shutdown()
        config = pybuda.VerifyConfig(arch=arch, devtype=kind, **options)
        if by_module:
            (device,) = pybuda.verify.verify_module(Rows("m"), [NEAR_ONE.shape], config, inputs=[(NEAR_ONE,)])
        else:
            device = card(module=Rows("m"), devtype=kind, arch=arch)
            pybuda.pybuda_compile(device, "rows", NEAR_ONE, verify_cfg=config)
        return device

    lost = r"expected output 0 of the card .*to (be|correlate)"
    with pytest.warns(LostByFormats, match=rf"{lost}.*; in Float32 it does"):
        assert compare(arch=pybuda.BackendDevice.Grayskull, skip_shutdown=True).board == "grayskull"
    with pytest.warns(LostByFormats, match=rf"{lost}.*; in Float32 it does"):
        device = compare(skip_shutdown=True)
    (program,) = device.compiled
    assert program.compilation.configuration.get("default_df_override") is None, "what runs later has its own formats"
    with pytest.raises(PyBudaError, match=lost):
        compare(golden_ignore_df_precision=False)
    with pytest.warns(LostByFormats, match=rf"{lost}.*; in Float32 it does"):
        compare(pybuda.BackendType.Silicon)
    with pytest.raises(PyBudaError, match=lost):
        compare(pybuda.BackendType.Silicon, pcc=0.99)
    monkeypatch.setenv("TT_BACKEND_GOLDEN_QUANTIZE", "1")
    assert not pybuda.VerifyConfig().golden_ignore_df_precision
    monkeypatch.undo()
    monkeypatch.setattr(card_program.CardProgram, "run", lambda *_: [np.cos(np.arange(64.0)).reshape(1, 1, 64, 1)])
    with pytest.raises(PyBudaError, match=rf"{lost}.*; in Float32: .*{lost}"):
        compare()
    with pytest.raises(PyBudaError, match=lost) as far:
        compare(pybuda.BackendType.Silicon)
    assert "Float32" not in str(far.value), "a tenth of the largest value is not kept"


class Named(pybuda.PyBudaModule):
    """Inputs with names of their own, and of an op of the program, of one of the compiler and of an output."""

    def forward(self, x: Any, act: Any, multiply_0: Any, output0: Any) -> Any:
        both = pybuda.op.Add("act", pybuda.op.Subtract("", x, act), multiply_0)
        return pybuda.op.Gelu("", pybuda.op.Add("", both, output0))


def test_input_queues_have_the_names_of_forwards_arguments() -> None:
    pybuda.set_configuration_options(enable_auto_fusing=False)
    pybuda.insert_nop("x", "subtract_0")
    made = pybuda.pybuda_compile(card(module=Named("m")), "g", X, X, X, X, verify_cfg=pybuda.VerifyConfig())
    netlist = yaml.load(Path(made.netlist_filename or "").read_text(), yaml.CSafeLoader)
    inputs = {
        name for name, queue in netlist["queues"].items() if queue["input"] == "HOST" and queue["type"] == "queue"
    }
    assert inputs == {"x", "arg1", "multiply_0", "arg3"}
    (graph,) = netlist["graphs"].values()
    assert graph["buffer_0_x_subtract_0"]["inputs"] == ["x"]
    assert "act" in {node.name for node in made.initial_graph.nodes}


class OneForAll(pybuda.PyBudaModule):
    """One matrix from the left of each of several."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.left = pybuda.Parameter(1, 1, 64, 64)

    def forward(self, act: Any) -> Any:
        return pybuda.op.Matmul("mm", self.left, act)


def test_one_left_side_of_several_products_is_read_again_for_each() -> None:
    acts = np.random.default_rng(0).standard_normal((1, 8, 64, 32)).astype(np.float32)
    pybuda.override_op_size("mm", (2, 1))
    made = pybuda.pybuda_compile(card(module=OneForAll("m")), "g", acts, verify_cfg=pybuda.VerifyConfig())
    netlist = yaml.load(Path(made.netlist_filename or "").read_text(), yaml.CSafeLoader)
    (graph,) = netlist["graphs"].values()
    assert graph["mm"]["input_0_tms"] == [{"broadcast": {"z": 8}}]
    assert graph["mm"]["t"] == 8
