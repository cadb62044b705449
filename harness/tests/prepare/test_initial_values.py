"""A golden takes the initial value of a sum or product once, whatever XLA does with it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.prepare.golden import compile_module

REDUCE = """func.func @main(%x: tensor<100x3x{0}>, %i: tensor<{0}>) -> tensor<3x{0}> {{
  %0 = stablehlo.reduce(%x init: %i) applies stablehlo.{1} across dimensions = [0]
    : (tensor<100x3x{0}>, tensor<{0}>) -> tensor<3x{0}>
  return %0 : tensor<3x{0}>
}}"""
WINDOW = """func.func @main(%x: tensor<1x64xf32>, %i: tensor<f32>) -> tensor<1x1xf32> {
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<1x64xf32>, tensor<f32>) -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}"""


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("f32", np.float32),
        ("bf16", ml_dtypes.bfloat16),
        ("f64", np.float64),
        ("i32", np.int32),
        ("complex<f32>", np.complex64),
    ],
)
def test_an_initial_value_enters_once(element: str, dtype: type):
    ones, three = np.ones((100, 3), dtype), np.array(3, dtype)
    for body, expected in (("add", 103), ("multiply", 3)):
        module = REDUCE.format(element, body)
        (got,) = compile_module(module, widen=True)([ones, three])
        assert got.astype(np.complex64).tolist() == [expected] * 3, body
    written = (
        REDUCE.format(element, "add")
        .replace("%i: ", "%unused: ")
        .replace("{\n", "{\n  %i = stablehlo.constant dense<3> : tensor<" + element + ">\n", 1)
    )
    if dtype is np.int32:
        assert compile_module(written, widen=True)([ones, three])[0].tolist() == [103] * 3, "a constant is no identity"


def test_windows_and_what_may_enter_any_number_of_times():
    (window,) = compile_module(WINDOW, widen=True)([np.ones((1, 64), np.float32), np.float32(3)])
    assert window.tolist() == [[67]]
    module = REDUCE.format("f32", "maximum")
    (largest,) = compile_module(module, widen=True)([np.ones((100, 3), np.float32), np.float32(3)])
    assert largest.tolist() == [3] * 3
