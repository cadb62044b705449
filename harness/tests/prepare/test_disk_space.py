"""The estimate of a model's values is what a walk then stores, and a disk without that room is refused in one line."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from opscope.harness.cache import export_folder
from opscope.harness.engine.model_jobs import prepare
from opscope.harness.prepare import disk_space
from opscope.harness.prepare.preparation import Preparation
from opscope.harness.prepare.split import split_module
from opscope.harness.prepare.walk import Limits
from opscope.harness.record.errors import InputError

NET = """func.func @main(%x: tensor<32x64xf32>, %w: tensor<64x32xf32>) -> tensor<32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<32x64xf32>, tensor<64x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.tanh %0 : tensor<32x32xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<32x32xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
  return %3 : tensor<32xf32>
}"""


# quick: a file, which no framework has to export
@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        ("net", "captured"),
        *(pytest.param("mnist_mlp", each, marks=pytest.mark.slow) for each in ("captured", "random")),
    ],
)
def test_the_estimate_is_what_the_walk_stores(tmp_path: Path, model: str, inputs: str) -> None:
    (tmp_path / "net.mlir").write_text(NET)
    header, _ = prepare(Preparation((model if model != "net" else str(tmp_path / "net.mlir"),), inputs=inputs))
    folder = Path(header.export_dirs[0])
    stored = sum(np.load(path, mmap_mode="r").nbytes for path in (folder / export_folder.VALUES).glob("*.npy"))
    split = split_module((folder / export_folder.MODULE).read_bytes(), model)
    assert disk_space.stored_bytes(split, Limits(), random=inputs == "random") == stored > 10_000
    largest = max(np.load(path, mmap_mode="r").nbytes for path in (folder / export_folder.VALUES).glob("*.npy"))
    capped = disk_space.stored_bytes(split, Limits(tensor_bytes=largest - 1), random=inputs == "random")
    assert 0 < capped < stored


def test_a_disk_without_room_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """func.func @main(%a: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
      %0 = stablehlo.abs %a : tensor<1024x1024xf32>
      return %0 : tensor<1024x1024xf32> }"""
    split = split_module(text.encode(), "m")
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 8 << 20))
    disk_space.check(split, Limits(), tmp_path, "m")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, (8 << 20) - 1))
    with pytest.raises(
        InputError, match=r"^--model m: expected 8.0 MiB free on the disk of .*, got 8.0 MiB free; try opscope"
    ):
        disk_space.check(split, Limits(), tmp_path, "m")
