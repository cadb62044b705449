"""Images of training: the three passes in one file, and steps that go on from it in another process."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from opscope import pybuda
from opscope.pybuda import op, optimizers
from opscope.simulator.host.errors import PyBudaError
from opscope.simulator.host.run_image import run_image
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X

STEPS = 3
GO_ON = """
import sys, warnings, queue
import numpy as np
warnings.simplefilter("ignore")
from opscope import pybuda
folder = sys.argv[1]
device = pybuda.TTDevice.load_image(img_path=f"{folder}/tt0.tti")
x, y = (np.load(f"{folder}/{name}.npy") for name in "xy")
for _ in range(3):
    device.push_to_inputs(x)
    device.push_to_target_inputs(y)
losses = queue.Queue()
sequential = sys.argv[2] == "sequential"
(weights,) = pybuda.run_training(steps=3, loss_queue=losses, _sequential=sequential).get()
assert (device.process is None) == sequential
found = {name: value.value() for name, value in weights.items()}
np.savez(f"{folder}/{sys.argv[2]}.npz", *[losses.get().value() for _ in range(3)], **found)
"""


def trainee(optimizer: Any = None) -> Any:
    device = pybuda.TTDevice(
        "tt0", arch=WORMHOLE, module=Layer("one"), optimizer=optimizer or optimizers.Adam(0.01, device_params=True)
    )
    device.place_loss_module(op.loss.L1Loss("l1"))
    return device


@pytest.mark.slow
def test_steps_from_an_image_in_another_process_have_the_bits_of_the_first(tmp_path: Path) -> None:
    y = np.zeros_like(X)
    device = trainee()
    image = device.compile_to_image(
        img_path=tmp_path / "tt0.tti", training=True, sample_inputs=(X,), sample_targets=(y,)
    )
    assert [module.kind for module in image.modules] == ["forward", "backward", "optimizer"]
    text = image.info_text()
    assert "- training: True\n- modules: ['one']\n" in text
    assert {"one.yaml", "one_backward.yaml", "one_optimizer.yaml"} <= set(image.entries)
    assert "- ordered input shapes: [[1, 1, 32, 64]]\n- ordered targets shapes: [[1, 1, 32, 64]]" in text
    for _ in range(STEPS):
        device.push_to_inputs(X)
        device.push_to_target_inputs(y)
    losses: queue.Queue[Any] = queue.Queue()
    (weights,) = pybuda.run_training(steps=STEPS, loss_queue=losses).get()
    assert any(not np.array_equal(value.value(), image.parameters[f"parameter.{n}"]) for n, value in weights.items())

    for name, value in (("x", X), ("y", y)):
        np.save(tmp_path / f"{name}.npy", value)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    expected = {f"arr_{i}": losses.get().value() for i in range(STEPS)} | {n: w.value() for n, w in weights.items()}
    for way in ("sequential", "in a process"):  # of the device's own
        subprocess.run([sys.executable, "-c", GO_ON, str(tmp_path), way], check=True, env=environment, cwd=tmp_path)
        with np.load(tmp_path / f"{way}.npz") as there:
            assert sorted(there.files) == sorted(expected)
            for name, value in expected.items():
                assert np.array_equal(there[name], value), (way, name)

    # No pass of it runs alone.
    done = CliRunner().invoke(run_image, [str(tmp_path / "tt0.tti")])
    assert done.exit_code == 2
    refusal = "expected an image of inference, got one of training; try TTDevice.load_image and run_training"
    assert refusal in done.output
    pybuda.shutdown()
    pybuda.TTDevice.load_image(img=image).push_to_inputs(X)
    with pytest.raises(PyBudaError, match="expected an image of inference, got one of training"):
        pybuda.run_inference(_sequential=True)


def test_an_image_of_training_needs_optimizer_loss_and_targets(tmp_path: Path) -> None:
    path = tmp_path / "tt0.tti"
    bare = pybuda.TTDevice("bare", arch=WORMHOLE, module=Layer("one"))
    with pytest.raises(PyBudaError, match="bare: expected an optimizer, got none"):
        bare.compile_to_image(img_path=path, training=True, sample_inputs=(X,))
    bare.optimizer = optimizers.SGD(0.1, device_params=True)
    with pytest.raises(PyBudaError, match="bare: expected a loss module, got none"):
        bare.compile_to_image(img_path=path, training=True, sample_inputs=(X,))
    pybuda.shutdown()
    with pytest.raises(PyBudaError, match="tt0: expected targets, for the loss module, got none; try sample_targets"):
        trainee().compile_to_image(img_path=path, training=True, sample_inputs=(X,))
    assert not path.exists()
