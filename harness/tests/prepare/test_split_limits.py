"""What of a module becomes one op's own: constants that decide shapes, splats, places of calls; how ops are counted."""

from __future__ import annotations

import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare import split as splitting
from opscope.harness.prepare.split import split_module
from opscope.harness.record.errors import InputError

DYNAMIC_OPS = """
func.func @main(%x: tensor<4x6xf32>, %i: tensor<2x1xi32>, %k: tensor<2x2x1x1xf32>, %l: tensor<1x4x6x1xf32>,
                %s: tensor<f32>) -> tensor<f32> {
  %a = stablehlo.constant dense<[4, 6]> : tensor<2xi32>
  %b = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %d = stablehlo.constant dense<[2, 0]> : tensor<2xi32>
  %e = stablehlo.constant dense<[1, 6]> : tensor<2xi32>
  %w = stablehlo.constant dense<[[1, 0], [0, 1]]> : tensor<2x2xi32>
  %n = stablehlo.constant dense<[4, 6]> : tensor<2xi64>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %a, dims = [0, 1] : (tensor<4x6xf32>, tensor<2xi32>) -> tensor<4x6xf32>
  %1 = stablehlo.dynamic_reshape %x, %a : (tensor<4x6xf32>, tensor<2xi32>) -> tensor<4x6xf32>
  %2 = stablehlo.dynamic_iota %a, dim = 0 : (tensor<2xi32>) -> tensor<4x6xf32>
  %3 = stablehlo.rng %s, %s, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x6xf32>
  %4 = stablehlo.dynamic_pad %x, %s, %b, %c, %d
    : (tensor<4x6xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<11x9xf32>
  %5 = "stablehlo.dynamic_gather"(%x, %i, %e) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}
    : (tensor<4x6xf32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x6xf32>
  %6 = "stablehlo.dynamic_conv"(%l, %k, %w) {dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1,
    f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}
    : (tensor<1x4x6x1xf32>, tensor<2x2x1x1xf32>, tensor<2x2xi32>) -> tensor<1x4x6x1xf32>
  %7 = stablehlo.real_dynamic_slice %x, %b, %a, %c
    : (tensor<4x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<4x3xf32>
  return %s : tensor<f32> }"""


def test_only_the_operands_that_decide_a_shape_stay_inside_as_constants() -> None:
    split = split_module(DYNAMIC_OPS)
    assert not any(op.unsplittable for op in split.ops.values())
    names = dict(zip(split.program.arguments, "xikls", strict=True))
    operands = {node.name: "".join(names[n] for n in node.inputs) for node in split.program.nodes if node.kind == "op"}
    assert {name.removeprefix("stablehlo."): arguments for name, arguments in operands.items()} == {
        "dynamic_broadcast_in_dim": "x",
        "dynamic_reshape": "x",
        "dynamic_iota": "",
        "rng": "s",
        "dynamic_pad": "xs",
        "dynamic_gather": "xi",
        "dynamic_conv": "lk",
        "real_dynamic_slice": "x",
    }
    # Such a constant is an argument of any other op.
    text = """func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {
      %a = stablehlo.constant dense<[4, 6]> : tensor<2xi32>
      %0 = stablehlo.add %a, %x : tensor<2xi32>
      return %0 : tensor<2xi32> }"""
    [add] = (node for node in split_module(text).program.nodes if node.kind == "op")
    assert add.inputs == add.operands


@each(("shape", "inside"), [("1x4", True), ("4x1", True), ("3x4", True), ("0x4", False)])
def test_a_splat_in_another_shape_stays_inside_unless_it_is_empty(shape: str, inside: bool) -> None:
    text = f"""func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
      %c = stablehlo.constant dense<1.5> : tensor<f32>
      %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<{shape}xf32>
      %0 = stablehlo.add %x, %b : tensor<{shape}xf32>
      return %0 : tensor<{shape}xf32> }}"""
    add = split_module(text).program.nodes[-1]
    assert add.inputs == (add.operands[:1] if inside else add.operands)


@each(
    ("call", "op", "location"),
    [
        ('"net/layer2"', '"neg"', "net/layer2/neg"),
        ('"net.py":9:1', '"neg"', "neg (net.py:9)"),
        ('"net/layer2"("net.py":9:1)', "unknown", "net/layer2 (net.py:9)"),
        ("unknown", '"neg"("inner.py":3:1)', "neg (inner.py:3)"),
    ],
)
def test_an_op_of_a_called_function_has_the_place_of_the_call_too(call: str, op: str, location: str) -> None:
    text = f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{
        %0 = func.call @f(%x) : (tensor<3xf32>) -> tensor<3xf32> loc({call})
        return %0 : tensor<3xf32>
      }}
      func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {{
        %0 = stablehlo.negate %x : tensor<3xf32> loc({op})
        return %0 : tensor<3xf32> }}"""
    [negate] = split_module(text).ops.values()
    assert [use.location for use in negate.uses] == [location]


def test_ops_are_counted_with_loops_and_calls_but_no_call_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """func.func @main(%n: tensor<i32>) -> tensor<i32> {
        %0 = stablehlo.while(%i = %n) : tensor<i32> cond {
          %p = stablehlo.compare NE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        } do {
          %j = func.call @f(%i) : (tensor<i32>) -> tensor<i32>
          stablehlo.return %j : tensor<i32>
        }
        %1 = func.call @f(%0) : (tensor<i32>) -> tensor<i32>
        %2 = func.call @endless(%1) : (tensor<i32>) -> tensor<i32>
        %3 = func.call @outside(%2) : (tensor<i32>) -> tensor<i32>
        return %3 : tensor<i32>
      }
      func.func private @f(%n: tensor<i32>) -> tensor<i32> {
        %0 = stablehlo.negate %n : tensor<i32>
        return %0 : tensor<i32>
      }
      func.func private @endless(%n: tensor<i32>) -> tensor<i32> {
        %0 = func.call @endless(%n) : (tensor<i32>) -> tensor<i32>
        return %0 : tensor<i32>
      }
      func.func private @outside(%n: tensor<i32>) -> tensor<i32>"""
    # Five in the entry, two in each region of the loop, two in each of both calls of f, two in endless.
    count = 5 + 4 + 4 + 2
    monkeypatch.setattr(splitting, "COUNTED_AT", 1)
    monkeypatch.setattr(splitting, "MOST_OPS", count)
    assert split_module(text).module_ops == count
    monkeypatch.setattr(splitting, "MOST_OPS", count - 1)
    with pytest.raises(InputError, match=f"at most {count - 1} ops, got {count} with all calls expanded"):
        split_module(text)
