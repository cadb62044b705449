"""What each device of a mesh runs, together, is what the module without shardings computes on XLA."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import CompilerInputError, StageFailure
from opscope.harness.prepare.golden import compile_module
from opscope.simulator.api import Device

X, Y = 2, 4
AXES = {"x": X, "y": Y}
BOARD = "n150"

MLP = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %v: tensor<32x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.tanh %0 : tensor<8x32xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}"""
CONV = """func.func @main(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  return %0 : tensor<2x4x8x8xf32>
}"""
ROWS = """func.func @main(%x: tensor<16x8xf32>) -> tensor<6x8xf32> {
  %0 = stablehlo.slice %x [3:9, 0:8] : (tensor<16x8xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}"""
LOOP = """func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> tensor<8x16xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%n = %i, %c = %x) : tensor<i32>, tensor<8x16xf32>
    cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %p = stablehlo.compare LT, %n, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n1 = stablehlo.add %n, %one : tensor<i32>
      %d = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
      %t = stablehlo.tanh %d : tensor<8x16xf32>
      stablehlo.return %n1, %t : tensor<i32>, tensor<8x16xf32>
    }
  return %r#1 : tensor<8x16xf32>
}"""
CASES = {
    "tensor parallel": (MLP, ["x,", ",y", "y,"], "x,"),
    "contracted": (MLP, [",y", "y,", ","], ","),
    "data parallel": (MLP, ["x,", ",", ","], "x,"),
    "replicated": (MLP, [",", ",", ","], ","),
    "both axes": (MLP, [",", ",", "x,y"], ",y"),
    "halo of a convolution": (CONV, [",,x,", ",,,"], ",,x,"),
    "channels of a convolution": (CONV, [",,,", "y,,,"], ",y,,"),
    "rows across shards": (ROWS, ["y,"], ","),
    "loop": (LOOP, ["x,", ",y"], "x,y"),
}
"""Module, per argument the axis of each dim, and those of the result."""


def sharding(axes: str) -> str:
    dims = ", ".join(f'{{"{axis}"}}' if axis else "{}" for axis in axes.split(","))
    return f"{{sdy.sharding = #sdy.sharding<@m, [{dims}]>}}"


def sharded(text: str, arguments: Sequence[str], result: str) -> str:
    """The module with its arguments and result annotated."""
    head, body = text.split(" {\n", 1)
    taken, made = head.split(" -> ")
    marks = iter(arguments)
    taken = re.sub(r"tensor<\w+>", lambda match: f"{match[0]} {sharding(next(marks))}", taken)
    return f'sdy.mesh @m = <["x"={X}, "y"={Y}]>\n{taken} -> ({made} {sharding(result)}) {{\n{body}'


def shard(array: np.ndarray, axes: str, place: dict[str, int]) -> np.ndarray:
    for dim, axis in enumerate(axes.split(",")):
        if axis:
            array = np.split(array, AXES[axis], dim)[place[axis]]
    return array


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_all_devices_together_compute_what_one_would(case: str) -> None:
    text, arguments, result = CASES[case]
    local = api.partitioned(sharded(text, arguments, result), "2x4")
    rng = np.random.default_rng(3)
    whole = compile_module(text)
    shapes = [[int(n) for n in part.split("xf32")[0].split("x")] for part in text.split(" ->")[0].split("tensor<")[1:]]
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    (expected,) = whole(inputs)
    places = [dict(zip(AXES, place, strict=True)) for place in itertools.product(range(X), range(Y))]
    binary = api.compile(local, api.load_board(BOARD))
    parts = [[shard(x, axes, place) for x, axes in zip(inputs, arguments, strict=True)] for place in places]
    for place, got in zip(places, Device(BOARD).load(binary).run_mesh(parts), strict=True):
        np.testing.assert_allclose(got.outputs[0], shard(expected, result, place), rtol=2e-2, atol=2e-2, err_msg=place)


def test_a_mesh_of_another_size_is_refused() -> None:
    text = sharded(*CASES["tensor parallel"])
    with pytest.raises(CompilerInputError, match="expected 8 devices, as the module has, got 4"):
        api.partitioned(text, "2x2")
    with pytest.raises(CompilerInputError, match="--mesh: expected sizes of axes, got '2x'; try 2x4"):
        api.partitioned(text, "2x")


def test_what_xla_refuses_is_a_failure_of_the_first_stage() -> None:
    with pytest.raises((StageFailure, CompilerInputError)):
        api.partitioned("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {", "2x4")
