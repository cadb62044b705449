"""Which share of an op's domain some inputs reached, and the inputs that reach it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.formulas.pointwise import POINTWISE
from opscope.harness.formulas.stablehlo_body import composite
from opscope.harness.prepare import domains
from opscope.harness.prepare.input_distributions import class_distributions
from opscope.harness.prepare.split import split_module
from opscope.models import input_classes
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
  func.func @main(%x: tensor<8x16xf32>, %y: tensor<16x4xf32>, %i: tensor<8x16xi32>,
      %z: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x16xi32>) {
    %0 = stablehlo.log %x : tensor<8x16xf32>
    %1 = stablehlo.add %x, %z : tensor<8x16xf32>
    %2 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.add %i, %i : tensor<8x16xi32>
    return %0, %1, %2, %3 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x4xf32>, tensor<8x16xi32>
  }
}"""


def test_each_family_has_inputs_of_its_own_classes() -> None:
    split = split_module(MODULE.encode(), "case")
    log, add, dot, integers = [node for node in split.program.nodes if node.kind == "op"]
    assert class_distributions(split, log) == {"every number": ["every:0:inf"]}
    assert class_distributions(split, add) == {
        "every number": ["every:-inf:inf"] * 2,
        "near 1": ["every:-inf:inf:1"] * 2,
    }
    of_rows = class_distributions(split, dot)
    assert list(of_rows) == list(input_classes.ROWS)
    assert of_rows["cancelling"] == ["cancelling:16", "cancelling:4"]
    assert of_rows["an outlier"] == ["spiked:16:256", "spiked:4:256"]
    assert class_distributions(split, integers) == {}


@each(("formula", "operands"), [("gelu", 1), ("swiglu", 2)])
def test_a_composite_of_single_elements_has_the_classes_of_such_ops(formula: str, operands: int) -> None:
    row = POINTWISE[formula]
    split = split_module(composite(formula, row.steps, dict(row.attributes), (8, 16, "f32"), operands), "case")
    (node,) = [node for node in split.program.nodes if node.kind == "op"]
    assert class_distributions(split, node)["every number"] == ["every:-inf:inf"] * operands


ROWS_ARE = {
    "normal": lambda rows: abs(rows.mean()) < 0.2,
    "one sign": lambda rows: ((rows >= 0) & (rows <= 1)).all(),
    "cancelling": lambda rows: (np.abs(rows.sum(1)) < 1e-5).all() and rows.std() > 0.5,
    "scaled": lambda rows: np.ptp(np.log2(np.abs(rows).max(1))) > 8,
    "constant": lambda rows: (rows == rows[:, :1]).all() and np.unique(rows[:, 0]).size > 1,
    "zeros": lambda rows: not rows.any(),
    "integers": lambda rows: (rows == np.round(rows)).all() and rows.min() >= 120 and rows.max() < 136,
    "far from zero": lambda rows: abs(rows.mean() - 100) < 1 and rows.std() < 2,
    "sorted": lambda rows: (np.diff(rows) >= 0).all(),
    "reversed": lambda rows: (np.diff(rows) <= 0).all(),
    "duplicates": lambda rows: {np.unique(row).size for row in rows} <= {1, 2, 3},
    "an outlier": lambda rows: ((rows == 256).sum(1) == 1).all(),
    "one dominant": lambda rows: ((rows == 20).sum(1) == 1).all(),
}


@each("kind", [BF16, np.dtype(np.float32)])
@each("name", input_classes.ROWS)
def test_rows_are_as_their_class_says(name: str, kind: np.dtype) -> None:
    law = input_classes.ROWS[name].format(width=32)
    rows = draw(law, (64, 32), kind, 0, 0).astype(np.float64)
    assert ROWS_ARE[name](rows)
    for width in (1, 7):
        law = input_classes.ROWS[name].format(width=width)
        assert draw(law, (width * 3,), kind, 0, 0).shape == (width * 3,)
