"""Shardy's ops in programs for one device: constants, annotations and bodies that split nothing."""

from __future__ import annotations

import numpy as np

from opscope.base.tests.each import each
from opscope.harness.prepare.export import one_model
from opscope.harness.prepare.golden import compile_module
from opscope.harness.prepare.mlir import load
from opscope.harness.prepare.split import split_module

PROGRAM = """sdy.mesh @mesh = <["x"={size}]>
func.func @main(%x: tensor<4x6xf32>) -> tensor<4xf32> {{
  %c = sdy.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
  %zero = sdy.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %0 = sdy.sharding_constraint %x <@mesh, [{{"x"}}, {{}}]> : tensor<4x6xf32>
  sdy.sharding_group %0 group_id=3 : tensor<4x6xf32>
  %1 = sdy.manual_computation(%0, %b) in_shardings=[<@mesh, [{{"x"}}, {{}}]>, <@mesh, [{{"x"}}, {{}}]>]
      out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}}
      (%l: tensor<{local}x6xf32>, %r: tensor<{local}x6xf32>) {{
    %3 = stablehlo.multiply %l, %r : tensor<{local}x6xf32>
    sdy.return %3 : tensor<{local}x6xf32>
  }} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = stablehlo.reduce(%1 init: %zero) across dimensions = [1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
  reducer(%p: tensor<f32>, %q: tensor<f32>) {{
    %low = sdy.constant dense<-9.0> : tensor<f32>
    %s = stablehlo.add %p, %q : tensor<f32>
    %t = stablehlo.maximum %s, %low : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }}
  return %2 : tensor<4xf32>
}}"""


def test_where_nothing_is_split_shardy_ops_are_gone_and_the_program_computes_the_same() -> None:
    text = PROGRAM.format(size=1, local=4)
    module = one_model(load(text), "net")
    assert "sdy." not in str(module).replace("sdy.mesh", "")
    ops = [op.op_name for op in split_module(module).ops.values()]
    assert ops == ["stablehlo.broadcast_in_dim", "stablehlo.multiply", "stablehlo.reduce"]
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    [result] = compile_module(module)([x])
    np.testing.assert_array_equal(result, (x * np.array([[1], [2], [3], [4]], np.float32)).sum(1))


def test_where_something_is_split_only_constants_change() -> None:
    text = str(one_model(load(PROGRAM.format(size=2, local=2)), "net"))
    assert "sdy.constant" not in text
    for kept in ("sdy.sharding_constraint", "sdy.sharding_group", "sdy.manual_computation"):
        assert kept in text


@each("value", ["(1.0, -2.0)", "0x7FC00001"])
def test_a_constant_of_any_type_keeps_its_bits(value: str) -> None:
    kind = "complex<f32>" if "(" in value else "f32"
    text = f"func.func @main() -> tensor<2x{kind}> {{\n %0 = OP dense<{value}> : tensor<2x{kind}>\n" + (
        f" return %0 : tensor<2x{kind}>\n}}"
    )
    modules = [one_model(load(text.replace("OP", name)), "net") for name in ("sdy.constant", "stablehlo.constant")]
    first, second = (list(split_module(module).ops) for module in modules)
    assert first == second
