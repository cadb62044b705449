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
