"""Quantised tensors are integers on the device: against the specification's formulas in double precision."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.tests import programs

X, SX, ZX = "!quant.uniform<i8:f32, 0.0235:-5>", 0.0235, -5
W, SW = "!quant.uniform<i8<-127:127>:f32, 0.0117>", 0.0117
Y, SY, ZY = "!quant.uniform<i8:f32, 0.0831:3>", 0.0831, 3
TIE = 1e-4
"""How near to a half float32 may decide otherwise than double precision, in steps of the result."""


def stored(shape: tuple[int, ...], seed: int, low: int = -128) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, 128, shape).astype(np.int8)


def run(body: str, signature: str, *inputs: np.ndarray) -> np.ndarray:
    return programs.simulate(programs.module(body, signature), *inputs)[0]


def assert_quantised(got: np.ndarray, value: np.ndarray, scale: np.ndarray | float, zero: int, low: int, high: int):
    """`got` is round(value / scale) + zero, clamped, where that is not as good as a tie."""
    exact = np.clip(value / scale + zero, low, high)
    assert np.abs(got - exact).max() <= 0.5 + TIE
    assert len(np.unique(got)) > 8


def test_a_product_is_rounded_and_clamped():
    a, b = stored((6, 40), 1), stored((40, 7), 2, -127)
    kinds = f"(tensor<6x40x{X}>, tensor<40x7x{W}>) -> tensor<6x7x{Y}>"
    got = run(
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : {kinds}\nreturn %0 : tensor<6x7x{Y}>",
        f"(%a: tensor<6x40x{X}>, %b: tensor<40x7x{W}>) -> tensor<6x7x{Y}>",
        a,
        b,
    )
    value = (a.astype(np.float64) - ZX) * SX @ (b.astype(np.float64) * SW)
    assert_quantised(got, value, SY, ZY, -128, 127)


def test_a_product_with_scales_per_output_and_batches():
    scales = np.array([0.01, 0.02, 0.015])
    weights = f"!quant.uniform<i8:f32:2, {{{','.join(f'{s}' for s in scales)}}}>"
    a, b = stored((2, 4, 10), 3), stored((2, 10, 3), 4)
    left, right, result = f"tensor<2x4x10x{X}>", f"tensor<2x10x3x{weights}>", f"tensor<2x4x3x{Y}>"
    got = run(
        f"""%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
              : ({left}, {right}) -> {result}
            return %0 : {result}""",
        f"(%a: {left}, %b: {right}) -> {result}",
        a,
        b,
    )
    value = (a.astype(np.float64) - ZX) * SX @ (b * scales)
    assert_quantised(got, value, SY, ZY, -128, 127)


@pytest.mark.parametrize("groups", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_convolution_pads_with_the_zero_point(groups: int):
    """jax's convolution in float64 is exact on these numbers."""
    import jax

    scales = np.array([0.01, 0.02, 0.015, 0.005])
    weights = f"!quant.uniform<i8<-127:127>:f32:3, {{{','.join(f'{s}' for s in scales)}}}>"
    wide = f"!quant.uniform<i32:f32:3, {{{','.join(f'{SX * s:.9g}' for s in scales)}}}>"
    x, k = stored((1, 6, 5, 4), 5), stored((3, 3, 4 // groups, 4), 6, -127)
    left, right, sums = f"tensor<1x6x5x4x{X}>", f"tensor<3x3x{4 // groups}x4x{weights}>", f"tensor<1x6x5x4x{wide}>"
    result = f"tensor<1x6x5x4x{Y}>"
    source = programs.module(
        f"""%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
              window = {{pad = [[1, 1], [1, 1]]}}
              {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : ({left}, {right}) -> {sums}
            %1 = stablehlo.uniform_quantize %0 : ({sums}) -> {result}
            return %0, %1 : {sums}, {result}""",
        f"(%x: {left}, %k: {right}) -> ({sums}, {result})",
    )
    total, got = programs.simulate(source, x, k)
    convolve = programs.jit(
        lambda a, b: jax.lax.conv_general_dilated(
            a, b, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )
    )
    want = np.asarray(convolve((x.astype(np.int32) - ZX).astype(np.float32), k.astype(np.float32)), np.float64)
    np.testing.assert_array_equal(total, want)
    assert_quantised(got, want * SX * scales, SY, ZY, -128, 127)


@pytest.mark.parametrize(
    "op", ["add", *(pytest.param(name, marks=pytest.mark.slow) for name in ("subtract", "multiply"))]
)
@pytest.mark.parametrize("other", [X, Y])
def test_elementwise_ops_of_equal_and_of_other_scales(op: str, other: str):
    a, b = stored((5, 33), 7), stored((5, 33), 8)
    left, right, result = (f"tensor<5x33x{kind}>" for kind in (X, other, Y))
    got = run(
        f"%0 = stablehlo.{op} %a, %b : ({left}, {right}) -> {result}\nreturn %0 : {result}",
        f"(%a: {left}, %b: {right}) -> {result}",
        a,
        b,
    )
    scale, zero = (SX, ZX) if other is X else (SY, ZY)
    value = getattr(np, op)((a.astype(np.float64) - ZX) * SX, (b.astype(np.float64) - zero) * scale)
    assert_quantised(got, value, SY, ZY, -128, 127)


def test_moves_and_maxima_keep_the_stored_integers():
    x = stored((4, 6), 9)
    kind, turned, least = f"tensor<4x6x{X}>", f"tensor<6x4x{X}>", f"tensor<{X}>"
    source = programs.module(
        f"""%0 = stablehlo.transpose %x, dims = [1, 0] : ({kind}) -> {turned}
            %1 = "stablehlo.reduce"(%x, %i) ({{
              ^bb0(%a: {least}, %b: {least}):
                %m = stablehlo.maximum %a, %b : {least}
                stablehlo.return %m : {least}
            }}) {{dimensions = array<i64: 1>}} : ({kind}, {least}) -> tensor<4x{X}>
            return %0, %1 : {turned}, tensor<4x{X}>""",
        f"(%x: {kind}, %i: {least}) -> ({turned}, tensor<4x{X}>)",
    )
    moved, largest = programs.simulate(source, x, np.array(-128, np.int8))
    np.testing.assert_array_equal(moved, x.T)
    np.testing.assert_array_equal(largest, x.max(1))


def test_weights_alone_are_dequantised():
    """Hybrid quantisation: a product of floats, as the specification says."""
    x, b = programs.random((3, 8)), stored((8, 4), 10, -127)
    kinds = f"(tensor<3x8xf32>, tensor<8x4x{W}>) -> tensor<3x4xf32>"
    got = run(
        f"%0 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : {kinds}\nreturn %0 : tensor<3x4xf32>",
        f"(%x: tensor<3x8xf32>, %b: tensor<8x4x{W}>) -> tensor<3x4xf32>",
        x,
        b,
    )
    np.testing.assert_allclose(got, x @ (b * np.float32(SW)), rtol=4e-3, atol=4e-3)


def test_sums_are_integers_in_the_program():
    """No product of floats is left where both operands are quantised."""
    kinds = f"(tensor<6x40x{X}>, tensor<40x7x{W}>) -> tensor<6x7x{Y}>"
    source = programs.module(
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : {kinds}\nreturn %0 : tensor<6x7x{Y}>",
        f"(%a: tensor<6x40x{X}>, %b: tensor<40x7x{W}>) -> tensor<6x7x{Y}>",
    )
    (product,) = [line for line in str(api.stablehlo_to_ttir(source)).splitlines() if '"ttir.matmul"' in line]
    assert product.endswith("(tensor<6x40xi32>, tensor<40x7xi32>) -> tensor<6x7xi32>")


@pytest.mark.parametrize(("board", "storage", "word"), [("n150", "i4", "i4"), ("e150", "i8", "Int32")])
def test_a_board_without_the_integers_says_never(board: str, storage: str, word: str):
    kind = f"tensor<4x!quant.uniform<{storage}:f32, 0.5>>"
    with pytest.raises(StageFailure, match=word) as caught:
        api.compile(
            programs.module(f"%0 = stablehlo.add %x, %x : {kind}\nreturn %0 : {kind}", f"(%x: {kind}) -> {kind}"),
            api.load_board(board),
        )
    assert caught.value.kind == "never"


W4 = "!quant.uniform<i4:f32, 0.5>"


@pytest.mark.parametrize("kind", ["i4", "ui4", W4], ids=["i4", "ui4", "quantised"])
def test_weights_of_four_bits_are_moved_and_converted(kind: str):
    """All 16 values, through a transpose; nothing but their conversion reads them."""
    numpy = ml_dtypes.uint4 if kind == "ui4" else ml_dtypes.int4
    x, w = programs.random((3, 8)), np.arange(16).reshape(2, 8).astype(np.int8).astype(numpy)
    read = "stablehlo.uniform_dequantize %t" if kind == W4 else "stablehlo.convert %t"
    body = f"""%t = stablehlo.transpose %w, dims = [1, 0] : (tensor<2x8x{kind}>) -> tensor<8x2x{kind}>
      %f = {read} : (tensor<8x2x{kind}>) -> tensor<8x2xf32>
      %r = stablehlo.dot_general %x, %f, contracting_dims = [1] x [0]
        : (tensor<3x8xf32>, tensor<8x2xf32>) -> tensor<3x2xf32>
      return %r : tensor<3x2xf32>"""
    got = run(body, f"(%x: tensor<3x8xf32>, %w: tensor<2x8x{kind}>) -> tensor<3x2xf32>", x, w)
    scale = np.float32(0.5 if kind == W4 else 1)
    np.testing.assert_allclose(got, x @ w.astype(np.float32).T * scale, rtol=4e-3, atol=4e-2)


@pytest.mark.parametrize(
    "line",
    [
        "stablehlo.add %x, %x : tensor<4xi4>",
        "stablehlo.convert %y : (tensor<4xi32>) -> tensor<4xi4>",
        "stablehlo.bitcast_convert %z : (tensor<4xui4>) -> tensor<4xi4>",
    ],
)
def test_nothing_computes_in_four_bits(line: str):
    source = programs.module(
        f"%0 = {line}\nreturn %0 : tensor<4xi4>",
        "(%x: tensor<4xi4>, %y: tensor<4xi32>, %z: tensor<4xui4>) -> tensor<4xi4>",
    )
    with pytest.raises(StageFailure, match=r"expected weights of u?i4 .* no integers narrower than 8 bits") as caught:
        api.compile(source, api.load_board("n150"))
    assert caught.value.kind == "never"
