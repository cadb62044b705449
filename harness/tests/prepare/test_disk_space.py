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


@pytest.mark.parametrize("inputs", ["captured", pytest.param("random", marks=pytest.mark.slow)])
def test_the_estimate_is_what_the_walk_stores(inputs: str) -> None:
    header, _ = prepare(Preparation(("mnist_mlp",), inputs=inputs))
    folder = Path(header.export_dirs[0])
    stored = sum(np.load(path, mmap_mode="r").nbytes for path in (folder / export_folder.VALUES).glob("*.npy"))
    split = split_module((folder / export_folder.MODULE).read_bytes(), "mnist_mlp")
    assert disk_space.stored_bytes(split, Limits(), random=inputs == "random") == stored > 10_000
    largest = 128 * 8 * 4
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
