"""A split that is read from a file is the one that was written; else there is none."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opscope.harness.prepare import kept_split
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.prepare.prepare_child import program_digest
from opscope.harness.prepare.split import SplitModule, split_module
from opscope.harness.tests.split_cases import RUNNABLE

CONSTANTS = """func.func @main(%x: tensor<2xf32>, %n: tensor<i32>) -> (tensor<2xf32>, tensor<3xbf16>) {
  %splat = stablehlo.constant dense<2.0> : tensor<2xf32>
  %twice = stablehlo.constant dense<[1.0, -0.0]> : tensor<2xf32>
  %again = stablehlo.constant dense<[1.0, -0.0]> : tensor<2xf32>
  %odd = stablehlo.constant dense<[1.0, 0x7FC1, 3.0]> : tensor<3xbf16>
  %four = stablehlo.constant dense<[1, -8, 7]> : tensor<3xi4>
  %pair = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  %none = stablehlo.constant dense<> : tensor<0xi64>
  %0 = stablehlo.add %x, %splat : tensor<2xf32>
  %1 = stablehlo.multiply %0, %twice : tensor<2xf32>
  %2 = stablehlo.subtract %1, %again : tensor<2xf32>
  %3 = stablehlo.custom_call @nobody(%n) : (tensor<i32>) -> tensor<?xf32>
  return %2, %odd : tensor<2xf32>, tensor<3xbf16>
}"""
CASES = (CONSTANTS, RUNNABLE["constants_of_every_kind"], RUNNABLE["while_captures_inside_nested_if_and_calls"])


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays bit for bit, and splats in both or in none."""
    if isinstance(one, np.ndarray):
        form = [(array.dtype, array.shape, array.tobytes(), array.flags.writeable) for array in (one, other)]
        return form[0] == form[1] and (one.size == 0 or any(one.strides) == any(other.strides))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return type(one) is type(other) and one == other


def modules(text: str) -> tuple[bytes, SplitModule]:
    bytecode = to_bytecode(load(text))
    return bytecode, split_module(bytecode, "m")


@pytest.mark.parametrize("text", CASES)
def test_a_stored_split_is_read_back_equal(text: str, tmp_path: Path) -> None:
    bytecode, split = modules(text)
    kept_split.write(tmp_path / "0.split", split, bytecode)
    read = kept_split.read(tmp_path / "0.split", bytecode)
    assert read is not None
    assert same(read.program, split.program)
    assert list(read.ops) == list(split.ops)
    assert all(same(read.ops[op_id], op) for op_id, op in split.ops.items())
    assert (read.values, read.module_ops, read.structural) == (split.values, split.module_ops, split.structural)
    assert program_digest(read, []) == program_digest(split, [])


def test_another_module_damage_and_none_are_no_split(tmp_path: Path) -> None:
    bytecode, split = modules(CONSTANTS)
    path = tmp_path / "0.split"
    assert kept_split.read(path, bytecode) is None
    kept_split.write(path, split, bytecode)
    assert kept_split.read(path, bytecode + b" ") is None
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert kept_split.read(path, bytecode) is None


def test_large_splits_and_those_without_a_place_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bytecode, split = modules(CONSTANTS)
    kept_split.write(tmp_path / "nowhere" / "0.split", split, bytecode)
    for name, limit in (("MOST_OPS", split.module_ops - 1), ("MOST_BYTES", 8)):
        with monkeypatch.context() as patch:
            patch.setattr(kept_split, name, limit)
            kept_split.write(tmp_path / "0.split", split, bytecode)
        assert not (tmp_path / "0.split").exists()
