"""Modules of bounded sizes are split at their bounds; a size that is set at run time stays dynamic."""

from __future__ import annotations

from opscope.harness.prepare.split import split_module

KIND = "tensor<?x3xf32, #stablehlo.bounds<8, ?>>"
SUM = f"""
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0]
    : ({KIND}, tensor<f32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}}"""


def test_a_bounded_argument_has_its_bound() -> None:
    split = split_module(f"func.func @main(%0: {KIND}) -> tensor<3xf32> {{{SUM}")
    (op,) = split.ops.values()
    assert not op.unsplittable
    assert [desc.shape for desc in op.inputs] == [(8, 3)]


def test_what_is_set_at_run_time_is_no_op_of_the_bound() -> None:
    source = f"""func.func @main(%x: tensor<8x3xf32>, %n: tensor<i32>, %y: {KIND}) -> tensor<3xf32> {{
      %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<8x3xf32>, tensor<i32>) -> {KIND}{SUM}"""
    ops = {op.op_name: op for op in split_module(source).ops.values()}
    assert "has a dynamic shape in dim 0" in ops["stablehlo.set_dimension_size"].unsplittable
    assert "#stablehlo.bounds<8, ?>" in ops["stablehlo.reduce"].unsplittable
