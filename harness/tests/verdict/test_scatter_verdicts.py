"""The verdict on a scatter that adds: rounded after each update, in the format that the result lies in."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.backends.base import Target
from opscope.harness.verdict.compare import compare
from opscope.harness.verdict.operands import Operands

DEVICE = Target("sim-n150", None, "HiFi4", "Tf32")
HOST = Target("host", None, "exact")
ADDED_TO = """func.func @main(%at: tensor<4096x1xi32>, %x: tensor<4096x8x{0}>) -> tensor<16x8x{0}> {{
  %zero = stablehlo.constant dense<0.0> : tensor<16x8x{0}>
  %0 = "stablehlo.scatter"(%zero, %at, %x) <{{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<{0}>, %b: tensor<{0}>):
      %1 = stablehlo.add %a, %b : tensor<{0}>
      stablehlo.return %1 : tensor<{0}>
  }}) : (tensor<16x8x{0}>, tensor<4096x1xi32>, tensor<4096x8x{0}>) -> tensor<16x8x{0}>
  return %0 : tensor<16x8x{0}>
}}"""


def away(x: np.ndarray) -> np.ndarray:
    """float32 values as bfloat16, ties away from zero."""
    return ((x.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)


def upwards(x: np.ndarray) -> np.ndarray:
    """float32 values as the bfloat16 that is next away from zero, unless they are one."""
    return ((x.view(np.uint32) + 0xFFFF) & 0xFFFF0000).view(np.float32)


@pytest.mark.crossed
@pytest.mark.parametrize("target", [DEVICE, HOST])
@pytest.mark.parametrize(("name", "dtype"), [("bf16", ml_dtypes.bfloat16), ("f32", np.float32)])
def test_a_scatter_may_round_after_each_update_in_its_format_but_lose_none(name, dtype, target):
    """Row r gets as many updates as it is likely to: the first half of the rows most of them, the last row one."""
    rng = np.random.default_rng(6)
    at = np.minimum((16 * rng.random(4096) ** 3).astype(np.int32), 14)[:, np.newaxis]
    at[-1] = 15
    updates = rng.standard_normal((4096, 8)).astype(dtype)
    known = Operands("stablehlo.scatter", ADDED_TO.format(name).encode(), lambda: [at, updates], "stablehlo.add")
    exact = np.zeros((16, 8))
    np.add.at(exact, at[:, 0], updates.astype(np.float64))
    golden = exact.astype(dtype)

    def verdict(got):
        params = {"body": "stablehlo.add"}
        (result,) = compare([golden], [got], "stablehlo.scatter", target, params=params, operands=known)
        return result

    rounded = np.zeros((16, 8), ml_dtypes.bfloat16)
    for row, update in zip(at[:, 0], updates, strict=True):
        rounded[row] = rounded[row] + update.astype(ml_dtypes.bfloat16)
    assert verdict(rounded.astype(dtype)).passed is (name == "bf16")
    lost = rounded.astype(dtype) if name == "bf16" else golden.copy()
    for row in (0, 15):  # of 1,600 updates the largest, and the only one
        largest = max(updates[at[:, 0] == row, 0].astype(float), key=abs)
        without = lost.copy()
        without[row, 0] = float(lost[row, 0]) - largest
        explained = row == 0 and name == "bf16"  # by 1,600 roundings
        assert verdict(without).passed is explained


@pytest.mark.parametrize(("rounding", "right"), [(away, True), (upwards, False)], ids=["a packer's", "directed"])
def test_a_packer_rounds_each_update_and_ties_away_from_zero_leans_outwards(rounding, right):
    """Sums of a few bfloat16 values are ties again and again: a count of ties in the results tells of none between."""
    rng = np.random.default_rng(3)
    at = rng.integers(0, 512, (4096, 1)).astype(np.int32)
    updates = rng.standard_normal((4096, 8)).astype(ml_dtypes.bfloat16)
    module = ADDED_TO.format("bf16").replace("16x8", "512x8").encode()
    known = Operands("stablehlo.scatter", module, lambda: [at, updates], "stablehlo.add")
    exact, got = np.zeros((512, 8)), np.zeros((512, 8), np.float32)
    np.add.at(exact, at[:, 0], updates.astype(np.float64))
    for row, update in zip(at[:, 0], updates.astype(np.float32), strict=True):
        got[row] = rounding(got[row] + update)
    params = {"body": "stablehlo.add"}
    golden, results = [exact.astype(ml_dtypes.bfloat16)], [got.astype(ml_dtypes.bfloat16)]
    (result,) = compare(golden, results, "stablehlo.scatter", DEVICE, params=params, operands=known)
    assert result.passed is right, result.reason


CONSTANT = """func.func @main({0}%at: tensor<256x1xi32>) -> tensor<4x8xbf16> {{
  {1}
  %x = stablehlo.constant dense<0.1> : tensor<256x8xbf16>
  %0 = "stablehlo.scatter"(%base, %at, %x) <{{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %1 = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %1 : tensor<bf16>
  }}) : (tensor<4x8xbf16>, tensor<256x1xi32>, tensor<256x8xbf16>) -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}}"""


@pytest.mark.parametrize(
    ("argument", "constant"),
    [("", "%base = stablehlo.constant dense<0.0> : tensor<4x8xbf16>"), ("%base: tensor<4x8xbf16>, ", "")],
    ids=["all constant", "the updates"],
)
def test_updates_that_are_a_constant_of_the_module_are_rounded_as_often(argument, constant):
    """Of 64 equal updates of an element: how many they are, only the indices say."""
    at = np.repeat(np.arange(4, dtype=np.int32), 64)[:, np.newaxis]
    zero, tenth = np.zeros((4, 8), ml_dtypes.bfloat16), ml_dtypes.bfloat16(0.1)
    module, inputs = CONSTANT.format(argument, constant).encode(), [zero, at] if argument else [at]
    known = Operands("stablehlo.scatter", module, lambda: inputs, "stablehlo.add")
    rounded = zero.copy()
    for _ in range(64):
        rounded = (rounded + tenth).astype(ml_dtypes.bfloat16)
    golden = np.full((4, 8), 64 * float(tenth), ml_dtypes.bfloat16)

    def passed(got):
        params = {"body": "stablehlo.add"}
        (result,) = compare([golden], [got], "stablehlo.scatter", HOST, params=params, operands=known)
        return result.passed

    assert (rounded != golden).all()
    assert passed(rounded)
    assert passed(golden)
    assert not passed((golden.astype(np.float32) / 2).astype(ml_dtypes.bfloat16))
