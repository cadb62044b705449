"""A value keeps the op that it is of where its layout changes, and a step on the way is not taken for it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, NameLoc, StringAttr, UnknownLoc

from opscope.compiler import api
from opscope.compiler.dialects.locations import location, moved

PLACE = FileLineColLoc(StringAttr("net.py"), IntAttr(7), IntAttr(1))
CONV = """func.func @main(%x: tensor<1x8x8x8xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x8x8xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x8x8xf32> loc("conv")
  %1 = stablehlo.exponential %0 : tensor<1x8x8x8xf32> loc("exp")
  return %1 : tensor<1x8x8x8xf32>
}"""


def named(name: str) -> NameLoc:
    return NameLoc(StringAttr(name), PLACE)


def test_moves_are_listed_in_the_order_of_their_application():
    one = moved(named("net/relu"), "permute", (0, 3, 1, 2))
    assert one == named("net/relu = permute[0,3,1,2]")
    assert moved(one, "reshape", (1, 4, 4, 8)) == named("net/relu = reshape[1,4,4,8] permute[0,3,1,2]")
    assert moved(UnknownLoc(), "permute", (1, 0)) == UnknownLoc(), "nobody asks for a value without a name"


def test_two_permutations_are_one_and_two_that_cancel_are_none():
    x = np.arange(24).reshape(2, 3, 4)
    first, second = (1, 2, 0), (2, 1, 0)
    both = moved(moved(named("v"), "permute", second), "permute", first)
    (order,) = [tuple(map(int, both.desc.data.partition("[")[2].rstrip("]").split(",")))]
    np.testing.assert_array_equal(x.transpose(order), x.transpose(first).transpose(second))
    assert moved(moved(named("v"), "permute", (1, 2, 0)), "permute", (2, 0, 1)) == named("v")


@pytest.mark.parametrize("level", [0, 1])
def test_the_last_of_the_ops_that_one_became_has_its_value(level: int):
    board = api.load_board("n150")
    options = api.CompileOptions(optimization_level=level)
    ttnn = api.ttir_to_ttnn(api.stablehlo_to_ttir(CONV), board, options)
    locations = [(op.name, location(op).partition(" (")[0]) for op in ttnn.walk() if op.name.startswith("ttnn.")]
    conv, exp = dict(locations)["ttnn.conv2d"], dict(locations)["ttnn.exp"]
    assert (conv, exp) == (("conv = permute[0,3,1,2]", "exp = permute[0,3,1,2]") if level else ("part of conv", "exp"))
    assert ("ttnn.permute", "part of conv") in locations, "the input's"
    assert ("ttnn.permute", "exp" if level else "conv") in locations, "the result's"
