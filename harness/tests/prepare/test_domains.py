"""Which share of an op's domain some inputs reached, and the inputs that reach it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.harness.prepare import domains
from opscope.harness.prepare.input_distributions import class_distribution
from opscope.harness.prepare.split import split_module
from opscope.models.seeding import draw

BF16 = np.dtype(ml_dtypes.bfloat16)


def normal(count: int, kind: type | np.dtype = BF16) -> np.ndarray:
    return draw("normal:1", (count,), np.dtype(kind), 0, 0)


def test_a_normal_draw_reaches_little_of_a_domain() -> None:
    assert domains.share("stablehlo.tanh", [normal(1 << 16)]) == pytest.approx(0.0388, abs=0.001)
    assert domains.share("stablehlo.tanh", [normal(1 << 16, np.float32)]) < 0.1
    positive = draw("uniform:0.1:4", (1 << 16,), BF16, 0, 0)
    assert domains.share("stablehlo.log", [positive]) == pytest.approx(0.0213, abs=0.001)


@pytest.mark.parametrize("kind", [BF16, np.float16, np.float32])
@pytest.mark.parametrize("op", ["stablehlo.tanh", "stablehlo.log", "chlo.acos", "chlo.acosh"])
def test_what_is_drawn_to_reach_a_domain_does(op: str, kind: type) -> None:
    low, high = domains.domain(op, 0)
    drawn = draw(f"every:{low:g}:{high:g}", (1 << 16,), np.dtype(kind), 0, 0)
    assert domains.share(op, [drawn]) > 0.99


def test_the_operand_that_reached_least_counts_and_scalars_do_not() -> None:
    every = draw("every:-inf:inf", (1 << 16,), BF16, 0, 0)
    few = np.ones(1 << 16, BF16)
    assert domains.share("stablehlo.add", [every, few]) == pytest.approx(1 / 65025, rel=0.01)
    assert domains.share("stablehlo.add", [every, np.array(1, BF16)]) == 1
    assert domains.share("stablehlo.add", [np.arange(4), np.zeros((0, 4), BF16)]) is None


def test_values_outside_of_a_domain_are_no_part_of_it() -> None:
    assert domains.share("stablehlo.log", [-np.abs(normal(1 << 16))]) == 0


MODULE = """module {
  func.func @main(%x: tensor<8x16xf32>, %y: tensor<16x4xf32>, %i: tensor<8x16xi32>) -> (tensor<8x16xf32>,
      tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x16xi32>) {
    %0 = stablehlo.log %x : tensor<8x16xf32>
    %1 = stablehlo.add %x, %x : tensor<8x16xf32>
    %2 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.add %i, %i : tensor<8x16xi32>
    return %0, %1, %2, %3 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x16xi32>
  }
}"""


def test_each_family_has_inputs_of_its_own_classes() -> None:
    split = split_module(MODULE.encode(), "case")
    log, add, dot, integers = [node for node in split.program.nodes if node.kind == "op"]
    assert class_distribution(split, log, 0) == "every:0:inf"
    assert class_distribution(split, add, 0) == "every:-inf:inf"
    assert [class_distribution(split, dot, index) for index in (0, 1)] == ["rows:16", "rows:4"]
    assert class_distribution(split, integers, 0) == "int:-8:8"
