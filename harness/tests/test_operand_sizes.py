"""Sizes of a sum's terms: what XLA computes on squares, against NumPy written out."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.verdict.operands import Operands

DOT = """func.func @main(%a: tensor<2x8x16xf32>, %b: tensor<2x16x4xf32>) -> tensor<2x8x4xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<2x8x16xf32>, tensor<2x16x4xf32>) -> tensor<2x8x4xf32>
  return %0 : tensor<2x8x4xf32>
}"""
SUM = """func.func @main(%a: tensor<8x16xf32>) -> tensor<8xf32> {
  %start = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %start) applies stablehlo.add across dimensions = [1]
    : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
CONV = """func.func @main(%a: tensor<1x6x6x2xf32>, %b: tensor<3x3x2x4xf32>) -> tensor<1x6x6x4xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {pad = [[1, 1], [1, 1]]} {feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<1x6x6x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x6x6x4xf32>
  return %0 : tensor<1x6x6x4xf32>
}"""


def operands(name, module, inputs):
    return Operands(name, to_bytecode(load(module, "test")), lambda: inputs, "stablehlo.add")


def windows(a, b):
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))  # n, h, w, c, i, j
    return np.einsum("nhwcij,ijco->nhwo", views**2, b**2)


@pytest.mark.parametrize(
    ("name", "module", "shapes", "squares"),
    [
        ("stablehlo.dot_general", DOT, [(2, 8, 16), (2, 16, 4)], lambda a, b: np.einsum("bik,bkj->bij", a**2, b**2)),
        ("stablehlo.reduce", SUM, [(8, 16)], lambda a: (a**2).sum(axis=1)),
        ("stablehlo.convolution", CONV, [(1, 6, 6, 2), (3, 3, 2, 4)], windows),
    ],
    ids=["dot_general", "reduce", "convolution"],
)
def test_sizes_are_roots_of_sums_of_squared_terms(name, module, shapes, squares):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    (sizes,) = operands(name, module, inputs).term_sizes
    np.testing.assert_allclose(sizes, np.sqrt(squares(*(x.astype(np.float64) for x in inputs))), rtol=1e-5)


def test_squares_that_would_overflow_are_clipped_and_excuse_less():
    terms = np.full((8, 16), 1e30, np.float32)
    sizes = operands("stablehlo.reduce", SUM, [terms]).term_sizes[0]
    assert (sizes <= 4e30).all()
    assert (sizes >= 1e18).all()
