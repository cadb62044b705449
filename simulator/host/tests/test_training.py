"""Training through the Python API: cards against the same programs on XLA, microbatches, schedules, bad calls."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope import pybuda
from opscope.harness.verdict.target import Target
from opscope.harness.verdict.tolerance import tolerance
from opscope.pybuda import op, optimizers
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.settings.options import configuration
from opscope.simulator.host.training import part
from opscope.simulator.host.training.passes import Pass
from opscope.simulator.host.training.training_device import Run

WORMHOLE = pybuda.BackendDevice.Wormhole_B0
FLOAT32 = pybuda.DataFormat.Float32
X = np.zeros((1, 1, 32, 32), np.float32)


class Linear(pybuda.PyBudaModule):
    """x @ weights + bias, then a tanh."""

    def __init__(self, name: str, inputs: int = 32, outputs: int = 32) -> None:
        super().__init__(name)
        self.weights, self.bias = pybuda.Parameter(inputs, outputs), pybuda.Parameter(outputs)
        self.frozen = pybuda.Parameter(outputs, requires_grad=False)

    def forward(self, act: Any) -> Any:
        product = op.Matmul("", act, self.weights, self.bias)
        return op.Tanh("", op.Add("", product, self.frozen))


class Encoder(pybuda.PyBudaModule):
    """A small transformer layer: attention and a feed-forward part, each with a layer norm before and a sum behind."""

    def __init__(self, name: str, width: int = 32) -> None:
        super().__init__(name)
        for key in ("query", "key", "value", "out"):
            setattr(self, key, pybuda.Parameter(width, width))
        self.up, self.down = pybuda.Parameter(width, 2 * width), pybuda.Parameter(2 * width, width)
        self.scale, self.shift = pybuda.Parameter(np.ones(width, np.float32)), pybuda.Parameter(width)

    def forward(self, x: Any) -> Any:
        normal = op.Layernorm("", x, self.scale, self.shift)
        query, key, value = (op.Matmul("", normal, w) for w in (self.query, self.key, self.value))
        scores = op.Multiply("", op.Matmul("", query, op.Transpose("", key, -2, -1)), 32**-0.5)
        attention = op.Matmul("", op.Softmax("", scores, dim=-1), value)
        x = op.Add("", x, op.Matmul("", attention, self.out))
        inner = op.Gelu("", op.Matmul("", op.Layernorm("", x, self.scale, self.shift), self.up), approximate="tanh")
        return op.Add("", x, op.Matmul("", inner, self.down))


class ConvNet(pybuda.PyBudaModule):
    """Two convolutions, one of them with a stride, the mean of all pixels, and a classifier."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.first, self.bias = pybuda.Parameter(8, 3, 3, 3), pybuda.Parameter(8)
        self.second, self.classes = pybuda.Parameter(16, 8, 3, 3), pybuda.Parameter(16, 10)

    def forward(self, image: Any) -> Any:
        inner = op.Relu("", op.Conv2d("", image, self.first, self.bias, padding=1))
        inner = op.Relu("", op.Conv2d("", inner, self.second, stride=2, padding=1))
        pixels = op.ReduceAvg("", op.ReduceAvg("", inner, -1), -2)
        return op.Matmul("", op.Reshape("", pixels, (1, 1, 1, 16)), self.classes)


def on_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes run on XLA from here on: what a card's are held to."""

    def program(device: Any, one: Pass) -> Run:
        return jax.jit(one.built.forward)

    monkeypatch.setattr(part, "_program", program)


def trained(
    make: Callable[[str], Any], data: list[tuple[np.ndarray, np.ndarray]], **options: Any
) -> tuple[dict[str, np.ndarray], list[float], Any]:
    """The weights after training on `data`, the losses, and the module."""
    pybuda.shutdown()
    steps = options.pop("steps", len(data))
    optimizer = options.pop("optimizer", None) or optimizers.SGD(0.05, device_params=True)
    module, losses = make("net"), queue.Queue[Any]()
    device = pybuda.TTDevice("tt", arch=WORMHOLE, optimizer=optimizer, module=module, fp32_fallback=FLOAT32)
    device.place_loss_module(op.loss.L1Loss("l1"))
    for x, y in data:
        device.push_to_inputs(x)
        device.push_to_target_inputs(y)
    checkpoints = pybuda.run_training(steps=steps, loss_queue=losses, **options)
    while not checkpoints.empty():
        (weights,) = checkpoints.get()
    return {n: v.value() for n, v in weights.items()}, [float(np.ravel(one.value())[0]) for one in losses.queue], module


def data(count: int, *shapes: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(5)
    return [tuple(random.standard_normal(shape).astype(np.float32) for shape in shapes) for _ in range(count)]


def exact_options() -> None:
    pybuda.set_configuration_options(accumulate_df=FLOAT32, math_fidelity=pybuda.MathFidelity.HiFi4)


ROW = tolerance(Target("sim-n150", "Float32", "HiFi4", "Tf32"), "whole_model", "f32")
"""The row that a whole model's results are held to where the matrix unit takes Float32 as TF32."""
MOVED = 0.1
"""Of the distance that a weight moved, how much may differ: each product and sum on the way loses 1e-3, as the matrix
unit cuts bits of TF32 off, and the sign of a difference that is almost zero, which is L1's gradient, may turn."""


def test_level_1_of_mixed_precision_is_the_optimizers() -> None:
    pybuda.set_configuration_options(amp_level=1)
    device = pybuda.TTDevice("tt", arch=WORMHOLE, optimizer=optimizers.SGD(0.05, device_params=True))
    device.place_module(Linear("net"))
    device.place_loss_module(op.loss.L1Loss("l1"))
    device.compile_for((X,), None, targets=[X])
    formats = {}
    for kind, program in device.programs.items():
        graph = program.compilation.graph
        assert graph is not None
        formats[kind] = {(node.data_format, node.spec.math_fidelity) for node in graph.ops}
    assert formats["optimizer"] == {("Float32", "HiFi4")}
    assert {name for name, _ in formats["forward"]} == {"Float16_b"}
    pybuda.set_configuration_options(amp_level=0)
    assert (configuration().precisions, configuration().get("amp_level")) == ([], 0)
    pybuda.config._get_global_compiler_config().amp_level = 1
    assert (configuration().precisions, configuration().get("amp_level")) == ([], 1)


def held_to_xla(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[str], Any], sets: list[tuple[np.ndarray, np.ndarray]]
) -> None:
    exact_options()
    ours, losses, module = trained(make, sets)
    programs = list(module.get_device().programs.values())
    assert [p.compilation.epoch_type for p in programs] == ["forward", "backward", "optimizer"]
    start = {p.get_name(): np.asarray(p.value()) for p in make("net").all_parameters()}
    assert all(np.array_equal(np.asarray(p.value()), ours[p.get_name()]) for p in module.all_parameters())
    on_xla(monkeypatch)
    expected, peers, _ = trained(make, sets)
    assert ROW.name == "Float32 matrix HiFi4, whole model"
    np.testing.assert_allclose(losses, peers, rtol=ROW.relative_l2)
    assert set(ours) == set(expected) == set(start)
    for name, weight in expected.items():
        error, moved = np.linalg.norm(ours[name] - weight), np.linalg.norm(weight - start[name])
        assert error <= ROW.relative_l2 * np.linalg.norm(weight)
        assert moved > 0 or name.endswith("frozen")
        assert error <= MOVED * moved, name
    assert not any(device.compilation.lowering.refused for device in programs), "an op was left to the host"


@pytest.mark.slow
def test_three_steps_of_a_layer_are_xlas(monkeypatch: pytest.MonkeyPatch) -> None:
    held_to_xla(monkeypatch, Linear, data(3, (1, 1, 32, 32), (1, 1, 32, 32)))


@pytest.mark.slow
def test_three_steps_of_a_transformer_are_xlas(monkeypatch: pytest.MonkeyPatch) -> None:
    held_to_xla(monkeypatch, Encoder, data(3, (1, 1, 32, 32), (1, 1, 32, 32)))


@pytest.mark.slow
def test_three_steps_of_a_convnet_are_xlas(monkeypatch: pytest.MonkeyPatch) -> None:
    held_to_xla(monkeypatch, ConvNet, data(3, (1, 3, 12, 12), (1, 1, 1, 10)))


class Halving(pybuda.LearningRateScheduler):
    """Half the rate in each epoch."""

    def get_lr(self) -> float:
        return self.optimizer.learning_rate / 2


@pytest.mark.slow
def test_epochs_steps_and_accumulation_are_loops_over_microbatches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs of two steps of two times three microbatches: what an optimizer of one's own makes of their sums."""
    on_xla(monkeypatch)
    sets = data(24, (1, 1, 4, 8), (1, 1, 4, 3))
    module, optimizer = Linear("net", 8, 3), optimizers.SGD(0.001, device_params=True)
    before = {p.get_name(): np.array(p.value()) for p in module.all_parameters()}
    losses = queue.Queue[Any]()
    device = pybuda.TTDevice("tt", arch=WORMHOLE, optimizer=optimizer, scheduler=Halving(optimizer), module=module)
    device.place_loss_module(op.loss.L1Loss("l1", "sum"))
    for x, y in sets:
        device.push_to_inputs({"act": x})
        device.push_to_target_inputs(y)
    pybuda.set_configuration_options(enable_recompute=True)
    checkpoints = pybuda.run_training(2, 2, 2, 3, loss_queue=losses, checkpoint_interval=2)
    assert device.training is not None
    assert list(device.training.forward_pass.results) == ["output.0"], "nothing is kept that can be computed again"
    assert losses.qsize() == 24
    assert checkpoints.qsize() == 3

    def loss(w: dict[str, Any], pairs: list[Any]) -> Any:
        outputs = ((jnp.tanh(x @ w["net.weights"] + w["net.bias"] + w["net.frozen"]), y) for x, y in pairs)
        return sum(jnp.abs(y - output).sum() for output, y in outputs)

    expected, after = dict(before), []
    for step in range(4):
        slopes = jax.jit(jax.grad(loss))(expected, sets[6 * step : 6 * step + 6])
        rate = 0.001 if step < 2 else 0.0005
        expected = expected | {n: expected[n] - rate * slopes[n] for n in ("net.weights", "net.bias")}
        after.append(expected)
    for checkpoint, wanted in zip(checkpoints.queue, (after[1], after[3], after[3]), strict=True):
        for name, value in checkpoint[0].items():
            np.testing.assert_allclose(value.value(), wanted[name], rtol=1e-4, atol=1e-5)
    (weights,) = pybuda.get_parameter_checkpoint()
    np.testing.assert_array_equal(weights["net.weights"], checkpoints.queue[2][0]["net.weights"].value())
    assert optimizer.learning_rate == 0.00025


@pytest.mark.slow
def test_a_pipeline_of_two_cards_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    on_xla(monkeypatch)
    there, back = queue.Queue[Any](), queue.Queue[Any]()
    first, second = Linear("first", 8, 6), Linear("second", 6, 3)
    one, two = (
        pybuda.TTDevice(name, arch=WORMHOLE, optimizer=optimizers.Adam(0.01, device_params=True), module=module)
        for name, module in (("one", first), ("two", second))
    )
    two.place_loss_module(op.loss.L1Loss("l1"))
    ((x, y),) = data(1, (1, 1, 4, 8), (1, 1, 4, 3))
    checkpoints = pybuda.initialize_pipeline(
        True, sample_inputs=(x,), sample_targets=(y,), d2d_fwd_queues=[there], d2d_bwd_queues=[back]
    )
    with pytest.raises(PyBudaError, match="training: expected 1 inputs, got 0; try push_to_inputs"):
        pybuda.run_forward()
    for _ in range(2):
        one.push_to_inputs(x)
        two.push_to_target_inputs(y)
    pybuda.run_forward(2)
    with pytest.raises(PyBudaError, match="one: expected every microbatch to have run backward, got 2 that wait"):
        pybuda.run_optimizer()
    with pytest.raises(PyBudaError, match="expected 3 microbatches that ran forward, got 2; try run_forward"):
        pybuda.run_backward(3)
    pybuda.run_backward(2, zero_grad=True)
    assert there.qsize() == back.qsize() == 2
    assert back.get()[0].shape == there.get()[0].shape == (1, 1, 4, 6)
    slopes = pybuda.get_parameter_gradients()
    assert [set(each) for each in slopes] == [{f"{n}.weights", f"{n}.bias"} for n in ("first", "second")]

    def loss(w: dict[str, Any]) -> Any:
        hidden = jnp.tanh(x @ w["first.weights"] + first.bias.value() + first.frozen.value())
        out = jnp.tanh(hidden @ second.weights.value() + second.bias.value() + second.frozen.value())
        return jnp.abs(y - out).mean()

    expected = jax.jit(jax.grad(loss))({"first.weights": first.weights.value()})["first.weights"]
    np.testing.assert_allclose(slopes[0]["first.weights"], 2 * expected, rtol=1e-4, atol=1e-6)
    weights = np.array(first.weights.value())
    pybuda.run_optimizer(checkpoint=True)
    pybuda.run_schedulers()
    assert np.abs(np.asarray(first.weights.value()) - weights).max() == pytest.approx(0.01, rel=1e-3)
    assert set(checkpoints.get()[1]) == {"second.weights", "second.bias", "second.frozen"}
    state = one.get_optimizer_params(is_buda=False)["first.weights"]
    assert set(state) == {"lr", "mean", "variance", "beta1_pow", "beta2_pow"}
    pybuda.update_device_parameters(one, [{"first.bias": np.zeros(6, np.float32)}])
    assert one.training is not None
    assert not one.training.checkpoint()["first.bias"].any()


def ready(**options: Any) -> Any:
    device = pybuda.TTDevice("tt", arch=WORMHOLE, module=options.pop("module", Linear("net")), **options)
    device.place_loss_module(op.loss.L1Loss("l1"))
    return device


def sgd() -> Any:
    return optimizers.SGD(0.1, device_params=True)


def _other_shape() -> None:
    device = ready(optimizer=sgd())
    for size in (32, 16):
        device.push_to_inputs(np.zeros((1, 1, size, 32), np.float32))
        device.push_to_target_inputs(np.zeros((1, 1, size, 32), np.float32))
    pybuda.initialize_pipeline(True)
    pybuda.run_forward(2)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "epochs": (lambda: pybuda.run_training(epochs=0), PyBudaError, "run_training: epochs: expected a number from 1"),
    "no module": (lambda: pybuda.run_training(), PyBudaError, "training: expected a module on a device, got none"),
    "no inputs": (
        lambda: (ready(optimizer=sgd()), pybuda.run_training()),
        PyBudaError,
        "training: expected 1 inputs, got 0",
    ),
    "no loss": (
        lambda: (ready(optimizer=sgd()).remove_loss_module(), pybuda.run_training()),
        PyBudaError,
        "tt: expected a loss module, got none; try place_loss_module",
    ),
    "no gradient": (
        lambda: (
            ready(optimizer=optimizers.SGD(0.1, [])),
            pybuda.initialize_pipeline(True, sample_inputs=(X,), sample_targets=(X,)),
        ),
        PyBudaError,
        "tt: expected parameters that require a gradient and that its optimizer trains, got none",
    ),
    "an optimizer of PyTorch's": (
        lambda: ready(optimizer=object()),
        PyBudaError,
        "tt: optimizer: expected a pybuda.Optimizer, got object",
    ),
    "the CPU": (
        lambda: (
            pybuda.CPUDevice("cpu", module=Linear("net")).place_loss_module(pybuda.op.loss.L1Loss("loss")),
            pybuda.initialize_pipeline(True, sample_inputs=(X,), sample_targets=(X,)),
        ),
        PyBudaError,
        "cpu: expected PyTorchModules to train on a CPU, got Linear; try a TTDevice",
    ),
    "a JAX function": (
        lambda: (
            ready(module=pybuda.JaxModule("f", np.tanh), optimizer=sgd()),
            pybuda.initialize_pipeline(True, sample_inputs=(X,), sample_targets=(X,)),
        ),
        PyBudaError,
        "tt: expected a PyBudaModule or a PyTorchModule to train, whose parameters can be set, got",
    ),
    "another shape": (
        _other_shape,
        PyBudaError,
        "tt: expected shape [1, 1, 32, 32] of input or target 0, got [1, 1, 16, 32]",
    ),
    "gradients": (lambda: pybuda.get_parameter_gradients(), PyBudaError, "get_parameter_gradients: expected training"),
    "a device alone": (lambda: ready(optimizer=sgd()).backward(1, True), PyBudaError, "tt: expected run_backward()"),
    "a sample": (
        lambda: (ready(optimizer=sgd()), pybuda.initialize_pipeline(True)),
        PyBudaError,
        "initialize_pipeline: expected sample_inputs, or some that were pushed, got neither",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_calls_are_one_line(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_xla(monkeypatch)
    call, kind, expected = BAD[what]
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).startswith(expected), error.value
    assert "\n" not in str(error.value)
