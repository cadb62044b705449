"""Queues of outputs, as TT-Buda's: all inputs run, a later run answers in the first queue, timeouts are stretched."""

from __future__ import annotations

import queue
import warnings

import numpy as np
import pytest

from opscope import pybuda
from opscope.simulator.host import pipeline
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.pipeline import OutputQueue, SlowerThanSilicon
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, card, layer, near

SEQUENTIAL = pytest.mark.parametrize("sequential", [True, False], ids=["sequential", "processes"])


def outputs_of(module: Layer, *inputs: np.ndarray) -> list[np.ndarray]:
    return [layer(module.weights, module.bias, x) for x in inputs]


@SEQUENTIAL
def test_all_inputs_run_in_order(sequential: bool) -> None:
    module = Layer("m")
    card(module=module)
    inputs = [X, 2 * X, -X]
    made = pybuda.run_inference(inputs=inputs, _sequential=sequential)
    got = [made.get()[0].value() for _ in inputs]
    assert all(near(a, b) for a, b in zip(got, outputs_of(module, *inputs), strict=True))
    assert made.empty()
    with pytest.raises(PyBudaError, match="expected input_count 2, as there are inputs, got 3"):
        pybuda.run_inference(inputs=[X, X], input_count=3)


@SEQUENTIAL
def test_a_later_run_answers_in_the_first_queue(sequential: bool) -> None:
    module = Layer("m")
    device = card(module=module)
    device.push_to_inputs(X)
    first = pybuda.run_inference(_sequential=sequential)
    device.push_to_inputs(2 * X)
    device.push_to_inputs(-X)
    assert pybuda.run_inference(input_count=2, _sequential=sequential) is first
    got = [first.get()[0].value() for _ in range(3)]
    assert all(near(a, b) for a, b in zip(got, outputs_of(module, X, 2 * X, -X), strict=True))
    mine: queue.Queue = queue.Queue()
    device.push_to_inputs(X)
    assert pybuda.run_inference(output_queue=mine, _sequential=sequential) is mine
    mine.get()
    device.place_module(Layer("another"))
    device.push_to_inputs(X)
    assert pybuda.run_inference(_sequential=sequential) not in (first, mine)


def test_another_module_takes_the_place_of_the_one_before() -> None:
    first, second = Layer("m"), Layer("n")
    device = card(module=first)
    made = pybuda.run_inference(second, inputs=[X], _sequential=True)
    assert near(made.get()[0].value(), outputs_of(second, X)[0])
    assert (device.modules, first.get_device()) == ([second], None)
    assert pybuda.run_inference(second, inputs=[2 * X], _sequential=True) is made
    with pytest.raises(PyBudaError, match="run: expected no other module on a device, got one on a"):
        first.run(X)


def test_a_run_without_end_takes_what_is_pushed_later() -> None:
    module = Layer("m")
    device = card(module=module)
    made = pybuda.run_inference(inputs=[X], input_count=0)
    device.push_to_inputs(2 * X)
    got = [made.get()[0].value() for _ in range(2)]
    assert all(near(a, b) for a, b in zip(got, outputs_of(module, X, 2 * X), strict=True))


def test_a_variable_makes_runs_sequential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYBUDA_FORCE_SEQUENTIAL", "1")
    device = card()
    made = pybuda.run_inference(inputs=[X])
    assert device.process is None
    assert not made.empty()


def test_timeouts_are_stretched_and_one_that_passes_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_said", False)
    made = OutputQueue()
    made.running = lambda: True
    with pytest.warns(SlowerThanSilicon, match="OPSCOPE_TIMEOUT_SCALE=1000"), pytest.raises(queue.Empty):
        made.get(timeout=0.01)
    with warnings.catch_warnings(action="error"), pytest.raises(queue.Empty):
        made.get(timeout=0.01)
    asked = []
    made.running = lambda: asked.append(1) or len(asked) < 20
    made.failed = lambda: RuntimeError("ended") if len(asked) > 10 else None
    monkeypatch.setenv("OPSCOPE_TIMEOUT_SCALE", "100000")
    with pytest.raises(PyBudaError, match="ended"):
        made.get(timeout=0.001)
    monkeypatch.setenv("OPSCOPE_TIMEOUT_SCALE", "far")
    with pytest.raises(PyBudaError, match="OPSCOPE_TIMEOUT_SCALE: expected a number above 0, got 'far'; try 1000"):
        made.get(timeout=0.001)


def test_devices_are_put_in_order() -> None:
    one = card(module=None)
    two = pybuda.TTDevice("b", arch=WORMHOLE)
    assert pybuda.get_tenstorrent_device() is one
    pybuda.set_device_pipeline([two, one])
    assert pybuda.pybudaglobal.get_devices() == [two, one]
    with pytest.raises(PyBudaError, match="set_device_pipeline: expected devices of this program"):
        pybuda.set_device_pipeline([object()])  # type: ignore[list-item]


def test_generation_without_past_caches_is_a_forward_run() -> None:
    module = Layer("m")
    device = card(module=module)
    made = pybuda.initialize_pipeline(training=False, sample_inputs=(X,))
    device.push_to_inputs(X)
    pybuda.run_generate(input_count=1, write_index=0)
    assert near(made.get()[0].value(), outputs_of(module, X)[0])
