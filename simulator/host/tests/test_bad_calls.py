"""What the functions of the API answer to arguments of another kind than theirs: one line, never another's error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope import pybuda
from opscope.pybuda.__main__ import main
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, card

TTDevice: Any = pybuda.TTDevice
"""Takes anything, as a program without types does."""


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "chip_ids: a number": (lambda: TTDevice("a", chip_ids=3), "a: chip_ids: expected a list of ids, got 3"),
    "chip_ids: text": (lambda: card(chip_ids=["0"]), "a: chip_ids: expected a number from 0 on, got '0'"),
    "chip_ids: below 0": (lambda: card(chip_ids=[-1]), "a: chip_ids: expected a number from 0 on, got -1"),
    "num_chips": (
        lambda: card(num_chips=10**9),
        "a: num_chips: expected at most 32, got 1000000000",
    ),
    "optimizer": (lambda: TTDevice("a", optimizer="sgd"), "a: optimizer: expected a pybuda.Optimizer, got 'sgd'"),
    "inputs": (
        lambda: (card(), pybuda.run_inference(inputs=3)),
        "run_inference: inputs: expected a list of inputs, got 3",
    ),
    "input_count": (
        lambda: (card(), pybuda.run_inference(input_count=True)),
        "run_inference: input_count: expected a number from 0 on, got True",
    ),
    "output_queue": (
        lambda: (card(), pybuda.run_inference(output_queue=[])),
        "run: output_queue: expected a queue, such as queue.Queue(), got []",
    ),
    "d2d_fwd_queues": (
        lambda: (card(), pybuda.initialize_pipeline(False, sample_inputs=(X,), d2d_fwd_queues=3)),
        "run: d2d_fwd_queues: expected a list of queues, got 3",
    ),
    "_verify_cfg": (
        lambda: (card(), pybuda.run_inference(_verify_cfg=0.99)),
        "run: _verify_cfg: expected a pybuda.VerifyConfig, got 0.99",
    ),
    "pcc": (lambda: pybuda.VerifyConfig(pcc="high"), "VerifyConfig: pcc: expected a number, such as 0.99, got 'high'"),
    "sample_inputs": (
        lambda: (card(), pybuda.initialize_pipeline(False, sample_inputs=3)),
        "initialize_pipeline: sample_inputs: expected a list of tensors, got 3",
    ),
    "a device by name": (
        lambda: pybuda.get_parameter_checkpoint("a"),
        "get_parameter_checkpoint: device: expected a pybuda.Device, got 'a'",
    ),
    "parameters": (
        lambda: pybuda.update_device_parameters(None, 3),
        "update_device_parameters: parameters: expected a list of dictionaries, one per device, got 3",
    ),
    "parameters of a device": (
        lambda: (card(), pybuda.update_device_parameters(None, [3])),
        "a: expected a dictionary of parameters by name, got 3",
    ),
    "loop_count": (
        lambda: card().generate("one", 0, 1, 0),
        "a: loop_count: expected a number from 0 on, got 'one'",
    ),
    "compile_for": (lambda: card().compile_for(3, None), "a.compile_for: inputs: expected a list of tensors, got 3"),
    "a folder as an image": (
        lambda: card().compile_to_image(img_path=3, sample_inputs=(X,)),
        "a: img_path: expected the name of a file, got 3",
    ),
    "a tensor of text": (lambda: pybuda.Tensor("x"), "Tensor: expected an array or the sizes of a shape, got 'x'"),
    "dev_data_format": (
        lambda: pybuda.Parameter(3, 3, dev_data_format="Float32"),
        "Parameter: dev_data_format: expected a pybuda.DataFormat, got 'Float32'",
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_an_argument_of_another_kind_is_one_line(what: str) -> None:
    call, message = CALLS[what]
    with pytest.raises(PyBudaError) as refused:
        call()
    assert str(refused.value) == message


def test_an_image_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PyBudaError, match=f"a: expected a place to write the image, got {tmp_path}: Is a directory"):
        card().compile_to_image(img_path=tmp_path, sample_inputs=(X,))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pybuda.TTDevice('a', arc=3)", "expected arguments that fit, got: TTDevice.__init__() got an unexpected"),
        ("pybuda.run_forward(1, 2, 3)", "expected arguments that fit, got: run_forward() takes from 0 to 2 positional"),
        ("pybuda.TTDeviceImage.load_from_disk('gone.tti')", "gone.tti: expected a device image, got: no such file"),
        ("pybuda.TTDeviceImage.load_from_disk(3)", "img_path: expected the name of a device image, got 3"),
    ],
)
def test_a_program_with_a_wrong_call_ends_with_one_line(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "program.py").write_text(f"import pybuda\n{line}\n")
    assert main([str(tmp_path / "program.py")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pybuda: {said}"), error
    assert error.count("\n") == 1


def test_a_programs_own_mistake_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "program.py").write_text("def mine(): ...\nmine(3)\n")
    with pytest.raises(TypeError, match=r"mine\(\) takes 0 positional arguments"):
        main([str(tmp_path / "program.py")])


@pytest.mark.slow
def test_compile_for_with_targets_compiles_what_training_then_runs() -> None:
    device = TTDevice("a", arch=WORMHOLE, module=Layer("m"), optimizer=pybuda.optimizers.SGD(0.1, device_params=True))
    with pytest.raises(PyBudaError, match="a: expected a loss module, got none; try place_loss_module"):
        device.compile_for((X,), None, [X])
    device.place_loss_module(pybuda.op.loss.L1Loss("l1"))
    (loss,) = device.compile_for((pybuda.Tensor(X.shape),), None, [np.zeros_like(X)])
    compiled = dict(device.programs)
    assert list(compiled) == ["forward", "backward", "optimizer"]
    for _ in range(2):
        device.push_to_inputs(X)
        device.push_to_target_inputs(np.zeros_like(X))
        pybuda.initialize_pipeline(training=True)
        pybuda.run_forward(_sequential=True)
        assert pybuda.get_loss_queue().get().shape == loss.shape
        pybuda.run_backward(zero_grad=True)
        pybuda.run_optimizer()
        assert device.programs == compiled  # nothing was compiled again
    pybuda.set_configuration_options(math_fidelity=pybuda.MathFidelity.LoFi)
    device.compile_for((X,), None, [X])
    assert not set(device.programs.values()) & set(compiled.values())
