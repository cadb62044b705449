"""The Python API from end to end: modules, devices, runs, options, and the errors of bad calls."""

from __future__ import annotations

import copy
import queue
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host.devices import tt_device
from opscope.simulator.host.errors import NoMeaningHere, NotThereYet, PyBudaError
from opscope.simulator.host.settings.options import configuration
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, card, layer, near


class Chosen(Layer):
    """Also the index of the largest element, which no card computes: the host does it afterwards."""

    def forward(self, act: Any) -> Any:
        out = super().forward(act)
        return out, pybuda.op.Argmax("", out, dim=-1)


def test_a_parameter_of_no_elements_is_one() -> None:
    """Helpers of programs make parameters that a size of 0 leaves unused."""
    assert pybuda.Parameter(1, 0).value().shape == (1, 0)
    assert pybuda.Parameter(0, 5).value().shape == (0, 5)


def test_a_module_runs_on_a_card_and_its_values_are_near_numpys() -> None:
    module = Chosen("one")
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    outputs = pybuda.run_inference(inputs=[X], _sequential=True).get()
    expected = layer(module.weights, module.bias)
    assert near(outputs[0], expected)
    assert np.array_equal(outputs[1].value()[..., 0], outputs[0].value().argmax(-1))
    assert isinstance(outputs[0].value(), np.ndarray)
    graph = device.compiled[0].compilation.graph
    assert graph is not None
    assert "one.product" in {node.name for node in graph.nodes}
    assert module.get_device() is device
    # What was pushed is checked against what was compiled, at once.
    with pytest.raises(PyBudaError, match=r"tt0: input 0: expected shape \[1, 1, 32, 64\], got \[32, 64\]"):
        device.push_to_inputs(X[0, 0])
    with pytest.raises(PyBudaError, match="tt0: input 0: expected float32, got int32"):
        device.push_to_inputs(X.astype(np.int32))
    with pytest.raises(PyBudaError, match="tt0: expected 1 inputs, got 2"):
        device.push_to_inputs(X, X)
    # New weights, without compiling again.
    (values,) = pybuda.get_parameter_checkpoint(device)
    assert set(values) == {"one.weights", "one.bias"}
    pybuda.update_device_parameters(device, [{"one.bias": np.zeros(64, np.float32)}])
    device.push_to_inputs({"act": X})
    again = pybuda.run_inference(sequential=True).get()
    assert near(again[0], np.tanh(X @ module.weights.value()))
    module.set_parameter("weights", np.zeros((64, 64), np.float32))
    device.push_to_inputs(X)
    assert near(pybuda.run_inference(sequential=True).get()[0], np.zeros_like(X))
    with pytest.raises(PyBudaError, match=r"tt0: expected a parameter of this device, got 'one\.nothing'"):
        pybuda.update_device_parameters(device, [{"one.nothing": X}])
    pybuda.shutdown()
    with pytest.raises(PyBudaError, match=r"tt0: expected push_to_inputs before shutdown\(\), got it after"):
        device.push_to_inputs(X)


class Unchanged(pybuda.PyBudaModule):
    """A sum over one element, which takes no op, as a result and for what the host computes after the card."""

    def forward(self, act: Any) -> Any:
        same = pybuda.op.ReduceSum("", act, 1)
        return same, pybuda.op.Power("", pybuda.op.Exp("", act), same)


def test_what_no_op_changes_is_a_result_too() -> None:
    pybuda.TTDevice("tt0", arch=WORMHOLE, module=Unchanged("one"))
    act = X[0, :, :1]
    same, power = pybuda.run_inference(inputs=[act], _sequential=True).get()
    assert near(same, act)
    assert np.allclose(power.value(), np.exp(act**2), rtol=0.05)


class Part(pybuda.PyBudaModule):
    """Every second row, and with `counts` only the largest elements' places, which no card computes."""

    def __init__(self, name: str, counts: bool) -> None:
        super().__init__(name)
        self.counts = counts

    def forward(self, act: Any) -> Any:
        return pybuda.op.Argmax("", act, dim=-1) if self.counts else pybuda.op.Index("rows", act, -2, 1, 32, 2)


def test_a_card_moves_the_result_of_a_module_of_moves_alone() -> None:
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=Part("rows", counts=False))
    (made,) = pybuda.run_inference(inputs=[X], _sequential=True).get()
    assert near(made, X[:, :, 1::2])
    graph = device.compiled[0].compilation.graph
    assert graph is not None
    assert [(node.name, node.spec.type) for node in graph.ops] == [("rows", "nop")]
    pybuda.shutdown()
    pybuda.TTDevice("tt0", arch=WORMHOLE, module=Part("places", counts=True))
    with pytest.raises(PyBudaError, match=r"places: module: all of it stays on the host.*; try a CPUDevice"):
        pybuda.run_inference(inputs=[X], _sequential=True)


@pytest.mark.slow
def test_a_pipeline_runs_while_inputs_are_pushed_and_taps_an_op() -> None:
    first, second = Layer("first"), Layer("second")
    tap = first.insert_tapout_queue_for_op("first.product", 0)
    card = pybuda.TTDevice("tt0", arch=WORMHOLE, module=first)
    pybuda.CPUDevice("cpu0", module=second)
    between: queue.Queue[Any] = queue.Queue()
    outputs = pybuda.initialize_pipeline(False, sample_inputs=(X,), d2d_fwd_queues=[between])
    pybuda.run_forward(3)
    for scale in (1, 2, 3):
        card.push_to_inputs(X * np.float32(scale))
    got = [outputs.get() for _ in range(3)]
    pybuda.sync()
    for scale, one in zip((1, 2, 3), got, strict=True):
        middle = layer(first.weights, first.bias, X * scale)
        assert near(one[0], layer(second.weights, second.bias, middle))
        assert near(between.get()[0], middle)
        assert np.allclose(tap.get(), X * scale @ first.weights.value() + first.bias.value(), atol=0.2)
    assert pybuda.get_intermediates_queue() is tap
    with pytest.raises(PyBudaError, match="outputs: expected a run that makes them, got none"):
        outputs.get()
    with pytest.raises(queue.Empty):
        outputs.get(timeout=0.01)
    assert not pybuda.error_raised()


@pytest.mark.parametrize("sequential", [True, False], ids=["sequential", "in a process"])
def test_results_of_ops_are_saved_by_runs_and_by_images(sequential: bool, tmp_path: Path) -> None:
    pybuda.set_configuration_options(op_intermediates_to_save=["one.product"])
    module = Layer("one")
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    (got,) = pybuda.run_inference(inputs=[X], sequential=sequential).get()
    (saved,) = pybuda.get_intermediates_queue().get()
    product = (X @ module.weights.value() + module.bias.value()).reshape(saved.shape)
    assert np.allclose(saved.value(), product, atol=0.2)
    image = device.compile_to_image(img_path=tmp_path / "one.tti", sample_inputs=(X,))
    pybuda.pybuda_reset()
    pybuda.TTDevice.load_image(img=image)
    (again,) = pybuda.run_inference(inputs=[X], sequential=sequential).get()
    (saved_again,) = pybuda.get_intermediates_queue().get()
    assert np.array_equal(again.value(), got.value())
    assert np.array_equal(saved_again.value(), saved.value())


def test_a_jax_function_is_a_module_and_arrays_that_it_holds_are_parameters() -> None:
    import jax.numpy as jnp

    weights = jnp.asarray(X[0, 0].T)
    module = pybuda.JaxModule("function", lambda x, y: {"out": jnp.tanh(x @ weights) + y})
    y = np.ones((32, 32), np.float32)
    outputs = module.run(X[0, 0] * np.float32(0.1), y)
    assert near(outputs[0], np.tanh(X[0, 0] @ X[0, 0].T * 0.1) + 1)
    assert module.get_device() is None
    pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    with pytest.raises(PyBudaError, match=r"function: TypeError: dot_general requires contracting dimensions"):
        pybuda.run_inference(inputs=[(X[0, 0, :, :3], y)], sequential=True)
    with pytest.raises(PyBudaError, match="expected a callable of JAX arrays, got ndarray"):
        pybuda.JaxModule("array", X)


def test_pytorchs_weights_of_a_wide_convolution_fit() -> None:
    """In tiles [O, I, 1, 1] would take 1,024 times its bytes: more than a card's DRAM, where the host has them."""
    import jax.numpy as jnp
    from jax import lax

    generator = np.random.default_rng(0)
    weights = generator.standard_normal((2048, 2048, 1, 1), np.float32)
    x = generator.standard_normal((1, 2048, 2, 2), np.float32)
    module = pybuda.JaxModule("wide", lambda x: lax.conv_general_dilated(x, jnp.asarray(weights), (1, 1), "VALID"))
    pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    (got,) = pybuda.run_inference(inputs=[(x,)], _sequential=True).get()
    expected = np.einsum("oi,nihw->nohw", weights[:, :, 0, 0], x)
    assert np.corrcoef(np.asarray(got.value()).ravel(), expected.ravel())[0, 1] > 0.999


def test_two_modules_of_a_device_run_in_a_row_and_one_alone_as_subgraph() -> None:
    first, second = Layer("first"), Layer("second")
    device = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Grayskull, devtype=pybuda.BackendType.Golden)
    device.place_module([first, second])
    device.push_to_inputs([X])
    (got,) = device.generate(1, write_index=0, tokens_per_iter=1, token_id=0)
    assert near(got[0], layer(second.weights, second.bias, layer(first.weights, first.bias)))
    device.set_active_subgraph(1)
    device.push_to_inputs(X)
    assert near(pybuda.run_inference(_sequential=True).get()[0], layer(second.weights, second.bias))
    assert device.get_active_subgraph() == 1
    with pytest.raises(PyBudaError, match="tt0: expected a subgraph below 2, got 2"):
        device.set_active_subgraph(2)


def test_a_chip_break_takes_the_next_chip_and_a_run_without_end_gives_way() -> None:
    class Both(pybuda.PyBudaModule):
        def __init__(self) -> None:
            super().__init__("both")
            self.first, self.second = Layer("first"), Layer("second")

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x))

    module = Both()
    pybuda.set_chip_break("second.product")
    device = pybuda.TTDevice("tt0", num_chips=2, arch=WORMHOLE, module=module)
    outputs = pybuda.run_inference(inputs=[X], input_count=0)
    expected = layer(module.second.weights, module.second.bias, layer(module.first.weights, module.first.bias))
    assert near(outputs.get()[0], expected)
    pybuda.run_forward(1)
    device.push_to_inputs(X)
    assert near(outputs.get()[0], expected)
    plan = device.compiled[0].compilation.plan
    assert plan is not None
    assert {epoch.chip for epoch in plan.epochs} == {0, 1}


def test_an_error_of_a_run_reaches_whoever_reads_the_outputs() -> None:
    device = pybuda.TTDevice("tt0", arch=WORMHOLE, module=Layer("wide", size=96))
    outputs = pybuda.run_inference(input_count=2)
    device.push_to_inputs(X)
    with pytest.raises(PyBudaError, match=r"wide\.product: expected operands that fit Matmul"):
        outputs.get()
    assert pybuda.error_raised()


def test_outputs_are_verified_against_xla() -> None:
    pybuda.TTDevice("tt0", arch=WORMHOLE, module=Layer("one"))
    verify = pybuda.VerifyConfig(pcc=0.99)
    assert pybuda.run_inference(inputs=[X], sequential=True, _verify_cfg=verify).get()
    with pytest.raises(PyBudaError, match=r"verify: expected output 0 to correlate with XLA's by 1\.1"):
        pybuda.run_inference(inputs=[X], sequential=True, _verify_cfg=pybuda.VerifyConfig(pcc=1.1))


# --- devices


def cluster(folder: Path, text: str) -> None:
    path = folder / "cluster.yaml"
    path.write_text(text)
    pybuda.set_configuration_options(backend_cluster_descriptor_path=str(path))


FOUR = """
arch: {0: Wormhole_B0, 1: Wormhole_B0, 2: Wormhole_B0, 3: Wormhole_B0}
chips: {0: [0, 0], 1: [1, 0], 2: [2, 0], 3: [3, 0]}
"""


def test_an_image_is_compiled_for_a_card_that_is_not_there_and_gives_the_same_bits(tmp_path: Path) -> None:
    pybuda.set_configuration_options(harvested_rows=[1, 11])
    device = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice.Grayskull, module=Layer("one"))
    image = device.compile_to_image(img_path=tmp_path / "images" / "tt0.tti", training=False, sample_inputs=(X,))
    text = image.info_text()
    assert "- grid size: [8, 12]\n- harvested rows: 2050\n" in text
    assert "- modules: ['one']\n- ordered input shapes: [[1, 1, 32, 64]]\n" in text
    first = pybuda.run_inference(inputs=[X], sequential=True).get()[0].value()
    pybuda.shutdown()
    loaded = pybuda.TTDevice.load_image(img=pybuda.TTDeviceImage.load_from_disk(img_path=tmp_path / "images/tt0.tti"))
    loaded.push_to_inputs([X.astype(np.float64)])
    assert np.array_equal(pybuda.run_inference().get()[0].value(), first)
    with pytest.raises(PyBudaError, match=r"one: expected input 0 of shape \[1, 1, 32, 64\], got \[32, 64\]"):
        loaded.push_to_inputs(X[0, 0])
    with pytest.raises(PyBudaError, match="load_image: expected img or img_path, got both or neither"):
        pybuda.TTDevice.load_image()
    pybuda.shutdown()
    chosen = pybuda.TTDevice("tt0", arch=WORMHOLE, module=Chosen("two"))
    with pytest.raises(PyBudaError, match="after it, which no image holds"):
        chosen.compile_to_image(img_path=tmp_path / "two.tti", sample_inputs=(X,))


@pytest.mark.parametrize(
    ("arch", "rows", "mask"),
    # quick: rows that are not there, and none
    [("Grayskull", [1, 11], 2050), ("Wormhole_B0", [], 0), pytest.param("Blackhole", [2], 4, marks=pytest.mark.slow)],
)
def test_equal_modules_are_equal_images_whose_descriptors_are_taken_back(
    arch: str, rows: list[int], mask: int, tmp_path: Path
) -> None:
    pybuda.set_configuration_options(harvested_rows=rows)

    def image(name: str) -> pybuda.TTDeviceImage:
        device = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice[arch], module=Layer("one"))
        made = device.compile_to_image(img_path=tmp_path / name, sample_inputs=(X,))
        pybuda.shutdown()
        return made

    first = image("first.tti")
    second = image("second.tti")  # from another line, which is in none of its places
    assert first.path.read_bytes() == second.path.read_bytes()
    assert not [name for name, content in first.entries.items() if __file__.encode() in content]
    pybuda.pybuda_reset()
    for what in ("device", "cluster"):
        path = tmp_path / f"{what}.yaml"
        path.write_bytes(first.entries[f"backend_build_binaries/{what}_desc.yaml"])
        pybuda.set_configuration_options(**{f"backend_{what}_descriptor_path": str(path)})
    assert pybuda.detect_available_devices() == [pybuda.BackendDevice[arch]]
    assert configuration().device == (first.device.board, mask)


def test_devices_are_detected(tmp_path: Path) -> None:
    assert pybuda.detect_available_devices() == [WORMHOLE]
    assert pybuda.TTDevice("a").get_device_config() == {"arch": WORMHOLE, "chip_ids": [0], "board": "n150"}
    # An explicit architecture needs no card.
    assert pybuda.TTDevice("b", arch=pybuda.BackendDevice.Blackhole).chip_ids == [0]
    cluster(tmp_path, FOUR)
    assert pybuda.detect_available_devices() == [WORMHOLE] * 4
    assert pybuda.TTDevice("c").chip_ids == [0, 1, 2, 3]
    assert pybuda.TTDevice("d", num_chips=3).chip_ids == [0, 1, 2]
    assert pybuda.TTDevice("e", chip_ids=[0, 2, 3]).chip_ids == [0, 2, 3]
    assert pybuda.TTDevice("e", chip_ids=[(2, 0), (0, 0)]).chip_ids == [2, 0]
    with pytest.raises(PyBudaError, match="f: chip_ids: expected some of 0, 1, 2, 3, got 7"):
        pybuda.TTDevice("f", chip_ids=[1, 7])
    with pytest.raises(PyBudaError, match="f: num_chips: expected at most 4, which are there, got 5"):
        pybuda.TTDevice("f", num_chips=5)
    cluster(tmp_path, "arch: {0: Wormhole_B0, 1: Grayskull}\nchips: {0: [], 1: []}\n")
    with pytest.raises(PyBudaError, match="f: expected cards of one architecture, got Grayskull, Wormhole_B0"):
        pybuda.TTDevice("f")
    for text, expected in (("[1]", "expected a mapping"), ("chips: {0: []}", "an arch of each chip"), ("{", "YAML")):
        cluster(tmp_path, text)
        with pytest.raises(PyBudaError, match=expected):
            pybuda.detect_available_devices()


def test_links_are_known_from_both_ends_and_chips_without_an_arch_have_that_of_their_device(tmp_path: Path) -> None:
    def links(**options: Any) -> dict[int, dict[int, tuple[int, int]]]:
        return pybuda.ttdevice.get_device_config(WORMHOLE, **options).get_ethernet_connections()

    assert links() == {}
    cluster(tmp_path, "chips: {4: [0, 0], 6: [1, 0]}\nethernet_connections: [[{chip: 4, chan: 8}, {chip: 6, chan: 0}]]")
    assert links() == {4: {8: (6, 0)}, 6: {0: (4, 8)}}
    assert pybuda.TTDevice("a", arch=WORMHOLE).chip_ids == [4, 6]
    params = tmp_path / "params.yaml"
    params.write_text("system_level_params: {system-device0-type: GRAYSKULL}")
    pybuda.set_configuration_options(backend_runtime_params_path=str(params))
    assert pybuda.detect_available_devices() == [pybuda.BackendDevice.Grayskull] * 2
    other = tmp_path / "other.yaml"
    other.write_text("ethernet_connections: [[4, 6]]")
    with pytest.raises(PyBudaError, match=r"expected pairs of \{chip: N, chan: N\}, got \[4, 6\]"):
        links(backend_cluster_descriptor_path=str(other))


def test_silicon_is_said_to_be_simulated_once(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(tt_device, "_said", False)
    with pytest.warns(tt_device.SimulatedSilicon, match="simulated card"):
        pybuda.TTDevice("a", arch=WORMHOLE, devtype=pybuda.BackendType.Silicon)
    pybuda.TTDevice("b", arch=WORMHOLE, devtype=pybuda.BackendType.Silicon)
    assert not recwarn.list


# --- bad calls


def run_on_card(module: Any, **options: Any) -> None:
    card(module=module, **options)
    pybuda.run_inference(inputs=[X], sequential=True)


def _placed_twice() -> None:
    module = Layer("m")
    pybuda.TTDevice("a", arch=WORMHOLE, module=module)
    pybuda.TTDevice("b", arch=WORMHOLE, module=module)


def _same_names() -> None:
    class Same(pybuda.PyBudaModule):
        def forward(self, x: Any) -> Any:
            return pybuda.op.Exp("e", pybuda.op.Exp("e", x))

    run_on_card(Same("same"))


def _no_tap() -> None:
    module = Layer("m")
    module.insert_tapout_queue_for_op("nothing", 0)
    run_on_card(module)


def _past_caches() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has no other effect
        pybuda.config._get_global_compiler_config().loopback_outputs = {"past": 1}
    pybuda.run_generate(input_count=1, write_index=0)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no device": (lambda: pybuda.run_inference(inputs=[X]), "run: expected a module on a device, got"),
    "no module": (lambda: (pybuda.TTDevice("a", arch=WORMHOLE), pybuda.run_inference()), "run: expected a module"),
    "no inputs": (lambda: (card(), pybuda.run_inference(sequential=True)), "run: expected 1 inputs, got 0"),
    "no tensor": (lambda: card().push_to_inputs("x"), "a: expected tensors, got str"),
    "no such input": (lambda: card().push_to_inputs({"other": X}), "m: expected the inputs (act"),
    "one more": (
        lambda: (card(), pybuda.run_inference(inputs=[(X, X)], sequential=True)),
        "m: expected the inputs (act",
    ),
    "no name": (lambda: pybuda.TTDevice(3), "TTDevice: expected a name first, got 3"),
    "placed twice": (_placed_twice, "b: expected a module that is on no device, got m, which is on a"),
    "no pybuda module": (lambda: pybuda.TTDevice("a", arch=WORMHOLE, module=len), "a: expected a module, such as"),
    "an arch as text": (lambda: pybuda.TTDevice("a", arch="wormhole"), "a: arch: expected a pybuda.BackendDevice"),
    "no simulator of it": (
        lambda: pybuda.TTDevice("a", devtype=pybuda.BackendType.Versim),
        "a: devtype: expected Silicon",
    ),
    "Wormhole A0": (lambda: pybuda.TTDevice("a", arch=pybuda.BackendDevice.Wormhole), "arch: expected Grayskull"),
    "both": (
        lambda: pybuda.TTDevice("a", num_chips=2, chip_ids=[0]),
        "a: chip_ids: expected 2 ids, as num_chips says, got 1",
    ),
    "compiled alone": (
        lambda: run_on_card(Layer("m"), devtype=pybuda.BackendType.NoBackend),
        "a: expected a device that runs, got CompileOnly or NoBackend",
    ),
    "names of ops": (_same_names, "same: expected names of ops that are unique to the module, got 'e'"),
    "no forward": (
        lambda: run_on_card(pybuda.PyBudaModule("empty")),
        "empty: expected a method forward of PyBudaModule, got none",
    ),
    "no tap": (_no_tap, "m: expected an op of that name to tap, got 'nothing'"),
    "both spellings": (
        lambda: pybuda.run_inference(input_count=1, num_inputs=1),
        "run_inference: expected input_count or num_inputs, got both",
    ),
    "unknown argument": (lambda: pybuda.run_inference(speed=1), "run_inference: expected (module"),
    "no pipeline": (lambda: pybuda.run_forward(), "run_forward: expected a pipeline, got none"),
    "no sample": (lambda: (card(), pybuda.initialize_pipeline(False)), "initialize_pipeline: expected sample_inputs"),
    "untrained": (
        lambda: (card(), pybuda.run_training()),
        "a: expected a loss module, got none; try place_loss_module",
    ),
    "no optimizer": (lambda: pybuda.run_optimizer(), "run_optimizer: expected training, got none; try"),
    "unknown option": (
        lambda: pybuda.set_configuration_options(balancer_polcy="Ribbon"),
        "set_configuration_options: option: expected one of TT-Buda's, got 'balancer_polcy'; try balancer_policy",
    ),
    "wrong value": (
        lambda: pybuda.set_configuration_options(balancer_policy="Best"),
        "set_configuration_options: balancer_policy: expected",
    ),
    "size": (lambda: pybuda.override_op_size("a", (1, 0)), "override_op_size: expected a name and"),
    "break": (lambda: pybuda.set_epoch_break([3]), "set_epoch_break: expected names of ops or predicates"),
    "regular expression": (lambda: pybuda.query.name_regex("("), "query: expected a regular expression"),
    "format": (lambda: pybuda.DataFormat.from_json("Float17"), "DataFormat: expected Float32, Float16,"),
    "parameter": (lambda: pybuda.Parameter(2, -1), "Parameter: expected an array or the sizes of a shape"),
    "no such parameter": (
        lambda: Layer("m").set_parameter("w", X),
        "m: expected a parameter of weights, bias, got 'w'",
    ),
    "value": (lambda: Layer("m").set_parameter("weights", X), "m.weights: expected a value of shape [64, 64]"),
    "no GPU": (lambda: pybuda.GPUDevice, "pybuda.GPUDevice: expected a name that a simulated card has"),
    "past caches": (_past_caches, "run_generate: expected a program that passes past keys and values on"),
}


NOT_HERE = {
    "no simulator of it": NoMeaningHere,
    "Wormhole A0": NoMeaningHere,
    "no GPU": NoMeaningHere,
    "past caches": NotThereYet,
}
"""Calls that ask for what a simulated card has not."""


@pytest.mark.parametrize("what", BAD)
def test_a_bad_call_is_one_line(what: str) -> None:
    call, expected = BAD[what]
    with pytest.raises(NOT_HERE.get(what, PyBudaError)) as error:
        call()
    assert str(error.value).startswith(expected), error.value
    assert "\n" not in str(error.value)


def test_a_parameter_without_a_value_draws_one_by_its_name() -> None:
    one, other, third = Layer("m"), Layer("m"), Layer("n")
    assert np.array_equal(one.weights.value(), other.weights.value())
    assert not np.array_equal(one.weights.value(), third.weights.value())
    assert 0.1 < one.weights.value().std() < 0.15  # 1 / sqrt(64)


def test_a_shape_is_a_tuple_that_has_tt_budas_names() -> None:
    for shape in (pybuda.Parameter(1, 2, 33, 64).shape, pybuda.Tensor(np.zeros((1, 2, 33, 64))).shape):
        assert copy.copy(shape) == (1, 2, 33, 64) == shape.get_pytorch_shape() == shape.dims
        assert (shape.w, shape.z, shape.r, shape.c, shape.rt, shape.ct) == (1, 2, 33, 64, 2, 2)
    assert pybuda.Parameter(64).shape.ct == 2
    assert not hasattr(pybuda.Parameter(64).shape, "rt")


def test_formats_have_the_back_ends_numbers_and_names() -> None:
    from opscope.compiler.target.formats import FORMATS

    for member in pybuda.DataFormat:
        if member is not pybuda.DataFormat.Invalid:
            assert FORMATS[member.name].code == member.value, member
        assert pybuda.DataFormat.from_json(member.to_json()) is member
    assert len(pybuda.DataFormat) == 17


def test_two_devices_may_have_one_name() -> None:
    modules = [Layer("first"), Layer("second")]
    devices = [pybuda.TTDevice("a", arch=WORMHOLE, module=module) for module in modules]
    devices[0].push_to_inputs(X)
    (output,) = pybuda.run_inference(input_count=1).get()
    (between,) = modules[0].compute([X])
    assert near(output.value(), modules[1].compute([between])[0])
