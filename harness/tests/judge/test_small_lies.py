"""Lies that documented rounding could almost have made: on the mean, by their digits, in a few elements, in a row."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from opscope import judge
from opscope.base.tests.each import each
from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.table import FORMULAS

TYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
COARSE = np.dtype(ml_dtypes.bfloat16)


def drawn(*shape: int, kind: str = "f32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(TYPES[kind])


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def exact(name: str, x: np.ndarray) -> np.ndarray:
    formula = FORMULAS[name]
    return np.asarray(formula.exact(wide(x), **formula.attributes))


def directed(y: np.ndarray, kind: np.dtype, to: float) -> np.ndarray:
    """Each value rounded up or down."""
    near = wide(rounded(y, kind))
    return rounded(np.where((near - y) * to < 0, near + to * last_place(y, kind), near), kind)


def cut(x: np.ndarray, bits: int) -> np.ndarray:
    fraction, exponent = np.frexp(wide(x))
    return np.ldexp(np.trunc(np.ldexp(fraction, bits + 1)), exponent - bits - 1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "rms_norm", "layer_norm"])
def test_a_row_on_a_card_is_held_to_what_the_matrix_unit_cuts(name: str) -> None:
    x = drawn(64, 96)
    y = exact(name, x)
    noise = np.random.default_rng(1).uniform(-1e-3, 1e-3, y.shape)
    assert judge(name, x, (y * (1 + noise)).astype(np.float32), target="card")
    assert judge(name, x, exact(name, cut(x, 9)).astype(np.float32), target="card")
    small = np.abs(y) < np.quantile(np.abs(y), 0.1)
    assert not judge(name, x, np.where(small, 0, y).astype(np.float32), target="card")
    assert not judge(name, x, (1.03 * y).astype(np.float32), target="card")


@each("name", ["softmax", "rms_norm"])
def test_a_row_on_a_card_does_not_lean_by_more_than_one_cut(name: str) -> None:
    x = drawn(64, 96)
    assert not judge(name, x, (1.004 * exact(name, x)).astype(np.float32), target="card")


@pytest.mark.parametrize("name", ["sum(axis=-1)", "mean(axis=-1)"])
def test_what_only_adds_up_in_float32_passes_through_no_matrix_unit(name: str) -> None:
    x = drawn(300, 500)
    y = wide(x).sum(-1) / (500 if name.startswith("mean") else 1)
    assert judge(name, x, y.astype(np.float32), target="card")
    for factor in (1.004, 0.997):
        assert not judge(name, x, (factor * y).astype(np.float32), target="card")


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("name", ["matmul", "sum(axis=-1)", "softmax", "rms_norm", "silu"])
def test_digits_of_bfloat16_alone_are_no_result_of_a_finer_type(name: str, kind: str) -> None:
    x = drawn(96, 96, kind=kind)
    operands = [x, x] if name == "matmul" else [x]
    right = wide(x) @ wide(x) if name == "matmul" else wide(x).sum(-1) if "sum" in name else exact(name, x)
    assert judge(name, operands, rounded(right, TYPES[kind]), target="card")
    assert not judge(name, operands, wide(rounded(right, COARSE)).astype(TYPES[kind]), target="card")


def test_coarse_results_are_right_where_the_right_ones_are_or_terms_cancel() -> None:
    x = np.random.default_rng(0).integers(-64, 64, (64, 64)).astype(np.float32)
    assert judge("matmul", [np.eye(64, dtype=np.float32), x], x, target="card")
    far = (300 + np.random.default_rng(0).standard_normal((64, 256))).astype(np.float32)
    one_pass = np.square(far).mean(-1) - np.square(far.mean(-1))
    assert (wide(rounded(wide(one_pass), COARSE)) == one_pass).all()
    assert judge("var(axis=-1)", far, one_pass)


@pytest.mark.parametrize("to", [1.0, -1.0])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
def test_a_kernel_that_states_half_a_unit_rounds_in_no_direction(name: str, to: float) -> None:
    x, y = drawn(64, 96), drawn(64, 96, seed=1)
    right = getattr(np, name)(wide(x), wide(y))
    assert judge(name, [x, y], right.astype(np.float32), target="card")
    assert not judge(name, [x, y], directed(right, TYPES["f32"], to), target="card")
    some = np.where(np.random.default_rng(2).random(x.shape) < 0.006, np.nextafter(np.float32(right), 9), right)
    assert judge(name, [x, y], some.astype(np.float32), target="card")


def test_a_product_is_as_short_as_its_operands_own_bits_make_it() -> None:
    x, y = drawn(64, 256), drawn(256, 96, seed=1)
    right = wide(x) @ wide(y)
    assert judge("matmul", [x, y], (cut(x, 10) @ cut(y, 9)).astype(np.float32), target="card")
    assert not judge("matmul", [x, y], (0.997 * right).astype(np.float32), target="card")
    ones = np.full((64, 64), np.nextafter(np.float32(2), 0))  # all of whose bits are set
    assert judge("matmul", [ones, ones], (cut(ones, 10) @ cut(ones, 9)).astype(np.float32), target="card")


@pytest.mark.parametrize("factor", [1.004, 0.997])
def test_a_mean_of_few_values_is_asked_by_what_they_were_before_they_were_rounded(factor: float) -> None:
    x = (3 + np.random.default_rng(0).standard_normal((500, 300))).astype(TYPES["bf16"])
    right = wide(x).mean(0)
    golden = rounded(right, TYPES["bf16"])
    assert np.unique(golden).size < 64
    assert judge("mean(axis=0)", x, golden)
    assert judge("mean(axis=0)", x, rounded(wide(x.astype(np.float32).mean(0)), TYPES["bf16"]))
    assert not judge("mean(axis=0)", x, rounded(factor * right, TYPES["bf16"]))


@each("kind", ["bf16", "f16"])
@each("count", [1, 4, 20])
def test_a_few_results_of_16_bits_are_rounded_once(count: int, kind: str) -> None:
    x = (3 + np.random.default_rng(count).standard_normal((500, count))).astype(TYPES[kind])
    right = wide(x).mean(0)
    assert judge("mean(axis=0)", x, rounded(right, TYPES[kind]))
    assert judge("mean(axis=0)", x, rounded(wide(x.astype(np.float32).mean(0)), TYPES[kind]))
    other = wide(rounded(right, TYPES[kind]))
    other = np.where(other > right, other - last_place(right, TYPES[kind]), other + last_place(right, TYPES[kind]))
    verdict = judge("mean(axis=0)", x, rounded(other, TYPES[kind]))
    assert verdict.answer == "wrong"
    assert "not rounded to nearest" in verdict.reason


def test_an_overflow_of_the_bodys_own_steps_is_right_as_its_body_and_said_in_words() -> None:
    x, y = np.full(8, 60000, np.float16), np.zeros(8, np.float16)
    verdict = judge("hypot", [x, y], np.full(8, np.inf, np.float16), target="steps")
    assert (verdict.answer, verdict.grade) == ("right", "body")
    assert "a step of its body overflows to Infinity or NaN" in str(verdict)
    assert not judge("hypot", [x, y], np.full(8, np.inf, np.float16))


def test_a_sum_of_cut_terms_is_as_short_as_these_and_no_longer() -> None:
    kind = "tensor<1x12x12x3xf32>"
    text = f"""func.func @main(%x: {kind}) -> tensor<1x6x6x3xf32> {{
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %c) <{{window_dimensions = array<i64: 1, 2, 2, 1>,
        window_strides = array<i64: 1, 2, 2, 1>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %r = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }}) : ({kind}, tensor<f32>) -> tensor<1x6x6x3xf32>
      return %0 : tensor<1x6x6x3xf32>
    }}"""
    equal = np.full((1, 12, 12, 3), np.nextafter(np.float32(2), 0))  # all of whose bits are set
    for x in (drawn(1, 12, 12, 3) - 2, equal):
        exact, short = (each.reshape(1, 6, 2, 6, 2, 3).sum((2, 4)) for each in (wide(x), cut(x, 9)))
        assert judge(text, x, exact.astype(np.float32), target="card")
        assert judge(text, x, short.astype(np.float32), target="card")
        assert not judge(text, x, (1.004 * exact).astype(np.float32), target="card")
