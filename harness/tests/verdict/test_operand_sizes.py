"""Sizes of a sum's terms, and how far results move with operands: what XLA computes, against NumPy written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opscope.base.tests.each import each
from opscope.harness.prepare.mlir import load, to_bytecode
from opscope.harness.verdict.operands import Operands, block_largest, magnitude
from opscope.harness.verdict.steps import Steps

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


@pytest.mark.parametrize(
    ("name", "module", "shapes", "large"),
    [
        ("stablehlo.dot_general", DOT, [(2, 8, 16), (2, 16, 4)], (1e24, 1)),
        ("stablehlo.dot_general", DOT, [(2, 8, 16), (2, 16, 4)], (1e14, 1e15)),
        ("stablehlo.reduce", SUM, [(8, 16)], (1e30,)),
    ],
)
def test_terms_whose_squares_would_overflow_have_their_sizes(name, module, shapes, large):
    rng = np.random.default_rng(0)
    plain = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
    inputs = [x * np.float32(factor) for x, factor in zip(plain, large, strict=True)]
    (right,), (sizes,) = operands(name, module, plain).term_sizes, operands(name, module, inputs).term_sizes
    np.testing.assert_allclose(sizes / np.prod(large), right, rtol=1e-5)


PLAIN = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


@pytest.mark.parametrize("name", PLAIN)
def test_how_far_binary_ops_move_is_what_rounding_both_operands_to_blocks_does_at_most(name):
    rng = np.random.default_rng(1)
    steps = Steps("bound", stored=2.0**-7, block=True)
    inputs = [rng.standard_normal((8, 40)) for _ in range(2)]
    golden = PLAIN[name](*inputs)
    (most,) = Operands(f"stablehlo.{name}", b"", lambda: inputs).moved(steps, [golden])
    widths = [2.0**-7 * block_largest(x) for x in inputs]
    share = np.zeros(golden.shape)
    for a in (-1, 1):
        for b in (-1, 1):
            off = PLAIN[name](inputs[0] + a * widths[0], inputs[1] + b * widths[1])
            share = np.maximum(share, np.abs(off - golden) / most)
    assert 0.99 < share.max() <= 1 + 1e-9
    if name in ("add", "subtract", "multiply"):
        assert share.min() > 0.9


def moved(name: str, body: str, shapes: dict[str, tuple[int, ...]], result: tuple[int, ...], steps: Steps):
    """Seeded inputs of a module, and how far its result moves."""
    kinds = {word: f"tensor<{'x'.join(map(str, (*shape, 'f32')))}>" for word, shape in shapes.items()}
    kind = f"tensor<{'x'.join(map(str, (*result, 'f32')))}>"
    arguments = ", ".join(f"%{word}: {each}" for word, each in kinds.items())
    types = ", ".join(kinds.values())
    text = f"func.func @main({arguments}) -> {kind} {{ {body} : ({types}) -> {kind} return %0 : {kind} }}"
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape, dtype=np.float32) + np.float32(3) for shape in shapes.values()]
    known = Operands(f"stablehlo.{name}", to_bytecode(load(text, "test")), lambda: inputs)
    golden = known.run(inputs)
    return inputs, known.moved(steps, golden)[0]


LARGEST = """func.func @main(%x: tensor<4x40xf32>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<4x40xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
WITH_CONSTANT = """func.func @main(%x: tensor<4x40xf32>) -> tensor<4x40xf32> {{
  %c = stablehlo.constant dense<2.0> : tensor<4x40xf32>
  %0 = stablehlo.{0} %x, %c : tensor<4x40xf32>
  return %0 : tensor<4x40xf32>
}}"""
BLOCKS, PLAINLY = Steps("bound", stored=2.0**-7, block=True), Steps("bound", stored=2.0**-8)


def test_data_movement_moves_by_the_loss_of_its_operand():
    for steps, largest in ((BLOCKS, block_largest), (PLAINLY, np.abs)):
        turned = '%0 = "stablehlo.transpose"(%x) {permutation = array<i64: 1, 0>}'
        (x,), sizes = moved("transpose", turned, {"x": (4, 40)}, (40, 4), steps)
        np.testing.assert_allclose(sizes, steps.stored * largest(x).T, rtol=1e-6)
        x = np.random.default_rng(3).standard_normal((4, 40), dtype=np.float32)
        known = Operands("stablehlo.reduce", to_bytecode(load(LARGEST, "test")), lambda x=x: [x], "stablehlo.maximum")
        (sizes,) = known.moved(steps, known.run([x]))
        np.testing.assert_allclose(sizes, steps.stored * largest(x).max(axis=1), rtol=1e-6)


def test_the_smallest_and_an_order_move_by_the_most_that_any_of_its_operands_lost():
    x = np.random.default_rng(3).standard_normal((4, 40), dtype=np.float32)
    off = 2.0**-8 * np.abs(x.astype(np.float64))
    smallest = LARGEST.replace("0xFF800000", "0x7F800000").replace("maximum", "minimum")
    known = Operands("stablehlo.reduce", to_bytecode(load(smallest, "test")), lambda: [x], "stablehlo.minimum")
    np.testing.assert_allclose(known.moved(PLAINLY, known.run([x]))[0], off.max(axis=1), rtol=1e-6)
    order = """func.func @main(%x: tensor<4x40xf32>, %n: tensor<4x40xi32>) -> (tensor<4x40xf32>, tensor<4x40xi32>) {
      %0:2 = "stablehlo.sort"(%x, %n) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
        %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }) {dimension = 1 : i64} : (tensor<4x40xf32>, tensor<4x40xi32>) -> (tensor<4x40xf32>, tensor<4x40xi32>)
      return %0#0, %0#1 : tensor<4x40xf32>, tensor<4x40xi32> }"""
    inputs = [x, np.arange(160, dtype=np.int32).reshape(4, 40)]
    known = Operands("stablehlo.sort", to_bytecode(load(order, "test")), lambda: inputs)
    values, numbers = known.moved(PLAINLY, known.run(inputs))
    np.testing.assert_allclose(values, np.full((4, 40), off.max()), rtol=1e-6)
    assert not numbers.any()


def test_a_sum_of_products_moves_by_the_root_of_squares_of_each_operands_loss():
    for steps, largest in ((BLOCKS, block_largest), (PLAINLY, lambda x: np.abs(x.astype(np.float64)))):
        product, shapes = (
            "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]",
            {"a": (4, 40), "b": (40, 3)},
        )
        (a, b), sizes = moved("dot_general", product, shapes, (4, 3), replace(steps, error_model="sum"))
        off_a, off_b = steps.stored * largest(a), steps.stored * largest(b)
        squares = off_a**2 @ b.astype(np.float64) ** 2 + a.astype(np.float64) ** 2 @ off_b**2
        np.testing.assert_allclose(sizes, np.sqrt(squares), rtol=1e-5)


def test_an_elementwise_op_without_a_formula_moves_by_differences_of_itself():
    two = {"x": (4, 40), "y": (4, 40)}
    (x, y), sizes = moved("divide", '%0 = "stablehlo.divide"(%x, %y)', two, (4, 40), PLAINLY)
    np.testing.assert_allclose(sizes, 2 * 2.0**-8 * np.abs(x / y), rtol=5e-3)
    # Steps that are larger: what is lost between two steps of an op, but not the function's own error.
    for steps, rate in (
        (Steps("bound", between=0.25), 0.25),
        (Steps("bound", function=0.25, between=2.0**-24), 2.0**-24),
    ):
        (x,), sizes = moved("abs", '%0 = "stablehlo.abs"(%x)', {"x": (4, 40)}, (4, 40), steps)
        np.testing.assert_allclose(sizes, rate * np.abs(x), rtol=2e-4)


def test_a_constant_inside_of_the_module_is_stored_like_the_other_operand():
    for name, beside in (("add", 1), ("subtract", 1), ("divide", 0)):
        inputs = [np.random.default_rng(3).standard_normal((4, 40), dtype=np.float32) + np.float32(3)]
        known = Operands(f"stablehlo.{name}", to_bytecode(load(WITH_CONSTANT.format(name), "test")), lambda i=inputs: i)
        (golden,) = known.run(inputs)
        (sizes,) = known.moved(PLAINLY, [golden])
        size, own = np.abs(inputs[0]), np.abs(inputs[0] / 2 if name == "divide" else inputs[0])
        np.testing.assert_allclose(sizes, 2.0**-8 * (own + np.abs(golden) + beside * size), rtol=1e-3)


def test_another_op_moves_by_random_perturbations_and_no_less_than_half_of_its_row():
    (x,), sizes = moved("abs", '%0 = "stablehlo.abs"(%x)', {"x": (4, 40)}, (4, 40), Steps("part", stored=2.0**-8))
    change = 2.0**-8 * np.abs(x.astype(np.float64))
    row = np.sqrt(np.mean(change**2, axis=1, keepdims=True))
    np.testing.assert_allclose(sizes, np.maximum(change, row / 2), rtol=1e-3)


def test_losses_whose_squares_float32_cannot_hold_still_count():
    """Operands of 1e-25: their squares are zero in float32, the squares of their losses in units of the largest not."""
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 8, 16), dtype=np.float32), rng.standard_normal((2, 16, 4), dtype=np.float32)
    known = operands("stablehlo.dot_general", DOT, [a * np.float32(1e-25), b])
    (sizes,) = known.moved(Steps("sum", stored=2.0**-8), known.run(known.inputs))
    lost = 2.0**-8 * np.sqrt((a.astype(np.float64) ** 2) @ (b.astype(np.float64) ** 2))
    np.testing.assert_allclose(sizes / 1e-25, lost, rtol=1e-4)


def test_an_operand_of_zeros_loses_nothing():
    rng = np.random.default_rng(5)
    a, b = np.zeros((2, 8, 16), np.float32), rng.standard_normal((2, 16, 4), dtype=np.float32)
    known = operands("stablehlo.dot_general", DOT, [a, b])
    assert not known.moved(Steps("sum", stored=2.0**-8), known.run(known.inputs))[0].any()


def test_a_zero_beside_large_values_of_its_block_loses_nothing():
    """A sum of zeros is zero, so that a ghost there has no scale."""
    terms = np.random.default_rng(5).standard_normal((8, 16), dtype=np.float32)
    terms[3], terms[5, ::2] = 0, 0
    known = operands("stablehlo.reduce", SUM, [terms])
    (sizes,) = known.moved(Steps("sum", stored=2.0**-7, block=True), known.run(known.inputs))
    lost = 2.0**-7 * np.abs(terms).max(axis=1) * np.sqrt((terms != 0).sum(axis=1))
    np.testing.assert_allclose(sizes, lost, rtol=1e-5)
    assert sizes[3] == 0


def test_one_operand_that_is_chosen_moves_by_what_it_lost_and_by_the_constant_beside_it():
    """The largest of x and 2, where x is 1 or 5: it moves by x's own loss and by that of the result."""
    x = np.where(np.arange(160).reshape(4, 40) % 2, np.float32(1), np.float32(5))
    for name in ("maximum", "minimum"):
        known = Operands(f"stablehlo.{name}", to_bytecode(load(WITH_CONSTANT.format(name), "test")), lambda: [x])
        golden = getattr(np, name)(x, 2)
        np.testing.assert_allclose(known.moved(PLAINLY, [golden])[0], 2.0**-8 * (x + golden), rtol=1e-9)


def test_infinite_values_have_no_size_and_do_not_move():
    assert magnitude(np.float32([np.inf, -2, np.nan])).tolist() == [0, 2, 0]
    assert magnitude(np.complex64([3 - 4j, np.inf + 1j])).tolist() == [5, 0]
    power = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.exponential %x : tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    x = np.float32([100, 1, -np.inf, 2])  # to the power of e: infinity, e, 0, e squared
    known = Operands("stablehlo.exponential", to_bytecode(load(power, "test")), lambda: [x])
    golden = known.run([x])
    (sizes,) = known.moved(PLAINLY, golden)
    np.testing.assert_allclose(sizes, [0, 2.0**-8 * np.e, 0, 2.0**-8 * 2 * np.e**2], rtol=5e-3)
    (sizes,) = known.moved(Steps("part", stored=2.0**-8), golden)
    row = np.sqrt(np.mean(np.square([0, np.e, 0, 2 * np.e**2]))) * 2.0**-8
    np.testing.assert_allclose(sizes, [row / 2, row / 2, row / 2, 2.0**-8 * 2 * np.e**2], rtol=2e-2)


def test_a_result_without_rows_moves_by_its_own_perturbations():
    text = """func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.negate %x : tensor<f32>
      return %0 : tensor<f32> }"""
    x = np.array(-3, np.float32)
    known = Operands("stablehlo.negate", to_bytecode(load(text, "test")), lambda: [x])
    (sizes,) = known.moved(Steps("part", stored=2.0**-8), known.run([x]))
    assert sizes == pytest.approx(3 * 2.0**-8, rel=1e-3)


def test_a_sum_over_rows_moves_by_the_root_of_squares_of_what_its_terms_lost():
    x = np.random.default_rng(3).standard_normal((8, 16), dtype=np.float32)
    known = operands("stablehlo.reduce", SUM, [x])
    (sizes,) = known.moved(Steps("sum", stored=2.0**-8), known.run([x]))
    np.testing.assert_allclose(sizes, 2.0**-8 * np.sqrt(np.square(x.astype(np.float64)).sum(axis=1)), rtol=1e-5)


@each(("name", "body", "runs"), [("transpose", None, 1), ("reduce", "stablehlo.maximum", 2)])
def test_data_movement_runs_once_and_selection_with_both_signs(name, body, runs):
    ran = []
    known = Operands(f"stablehlo.{name}", b"", lambda: [np.float32([2, -4])], body)
    known._compiled = lambda: lambda inputs: ran.append(inputs[0].tolist()) or inputs
    assert known.moved(Steps("bound", stored=0.25), [np.zeros(2)])[0].tolist() == [0.5, 1.0]
    assert ran == [[0.5, 1.0], [-0.5, -1.0]][:runs]
