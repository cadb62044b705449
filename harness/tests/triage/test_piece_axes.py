"""The axes of modules of several ops: what changes together, through products, reductions, broadcasts and constants."""

from __future__ import annotations

import pytest

from opscope.harness.prepare.mlir.variant import InvalidVariantError
from opscope.harness.prepare.split import split_module
from opscope.harness.triage.piece_axes import PieceAxes

NORM = """func.func @main(%x: tensor<4x32xf32>, %w: tensor<32x8xf32>) -> tensor<4x8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<4x32xf32>
  %0 = stablehlo.multiply %x, %half : tensor<4x32xf32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<4x32xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x32xf32>
  %3 = stablehlo.subtract %0, %2 : tensor<4x32xf32>
  %4 = stablehlo.dot_general %3, %w, contracting_dims = [1] x [0]
    : (tensor<4x32xf32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}"""
CONVOLVED = """func.func @main(%x: tensor<2x14x14x8xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<2x12x12x16xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<2x14x14x8xf32>, tensor<3x3x8x16xf32>) -> tensor<2x12x12x16xf32>
  %1 = stablehlo.tanh %0 : tensor<2x12x12x16xf32>
  return %1 : tensor<2x12x12x16xf32>
}"""
FLAT = """func.func @main(%x: tensor<4x32xf32>) -> tensor<128xf32> {
  %0 = stablehlo.tanh %x : tensor<4x32xf32>
  %1 = stablehlo.reshape %0 : (tensor<4x32xf32>) -> tensor<128xf32>
  %2 = stablehlo.sine %1 : tensor<128xf32>
  return %2 : tensor<128xf32>
}"""


@pytest.mark.parametrize(
    ("module", "axis", "size", "arguments", "result"),
    [
        (NORM, (0, 1), 2, [(4, 2), (2, 8)], (4, 8)),
        (NORM, (0, 0), 3, [(3, 32), (32, 8)], (3, 8)),
        (NORM, (1, 1), 1, [(4, 32), (32, 1)], (4, 1)),
        (CONVOLVED, (0, 1), 5, [(2, 5, 14, 8), (3, 3, 8, 16)], (2, 3, 12, 16)),
        (CONVOLVED, (1, 2), 1, [(2, 14, 14, 1), (3, 3, 1, 16)], (2, 12, 12, 16)),
        (FLAT, (0, 0), 1, [(1, 32)], (32,)),
    ],
)
def test_an_axis_changes_in_all_ops_at_once(
    module: str, axis: tuple[int, int], size: int, arguments: list[tuple[int, ...]], result: tuple[int, ...]
) -> None:
    piece = PieceAxes(module.encode())
    argument, place = axis
    built = piece.with_size((piece.program.arguments[argument], place), size)
    assert built is not None
    module_now, shapes = built
    assert shapes == arguments
    split = split_module(module_now)
    assert [split.values[value].shape for value in split.program.arguments] == arguments
    assert split.values[split.program.results[0]].shape == result
    assert [node.name for node in split.program.nodes if node.kind == "op"] == [
        node.name for node in piece.program.nodes if node.kind == "op"
    ]


def test_each_axis_is_offered_once_the_largest_first() -> None:
    piece = PieceAxes(NORM.encode())
    x, w = piece.program.arguments
    assert piece.sizes() == [((x, 1), 32), ((w, 1), 8), ((x, 0), 4)]


def test_numbers_at_their_places_keep_their_size() -> None:
    words = ", ".join(f"{number}.0" for number in range(8))
    kind = "tensor<8xf32>"
    module = f"""func.func @main(%x: {kind}) -> {kind} {{
      %c = stablehlo.constant dense<[{words}]> : {kind}
      %0 = stablehlo.tanh %x : {kind}
      %1 = stablehlo.add %0, %c : {kind}
      return %1 : {kind}
    }}"""
    piece = PieceAxes(module.encode())
    assert piece.with_size((piece.program.arguments[0], 0), 4) is None


def test_ops_with_programs_inside_are_refused() -> None:
    kind = "tensor<4xf32>"
    module = f"""func.func @main(%p: tensor<i1>, %x: {kind}) -> {kind} {{
      %0 = "stablehlo.if"(%p) ({{ stablehlo.return %x : {kind} }}, {{
        %1 = stablehlo.tanh %x : {kind}
        stablehlo.return %1 : {kind} }}) : (tensor<i1>) -> {kind}
      return %0 : {kind}
    }}"""
    with pytest.raises(InvalidVariantError):
        PieceAxes(module.encode())
