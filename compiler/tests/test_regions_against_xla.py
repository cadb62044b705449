"""Ops with bodies, against XLA on the CPU: scatter, sort, reductions of any kind."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from opscope.compiler.tests import programs
from opscope.compiler.tests.programs import random
from opscope.compiler.tests.test_against_xla import check, check_all

F, B, I32 = np.float32, ml_dtypes.bfloat16, np.int32
ROWS = np.array([4, 1, 4, -1, 9, 4], I32)
"""Row numbers, one of them three times; -1 counts from the end in JAX, 9 lies outside."""


def same(source: str, *inputs: np.ndarray, relative: float = 0.0) -> None:
    """Text against XLA, equal but for `relative`."""
    for got, want in zip(programs.simulate(source, *inputs), programs.xla(source, *inputs), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=relative, atol=relative)


@pytest.mark.parametrize(
    "dtype",
    # quick: the wider float, the narrower integer; booleans, test_select_and_scatter_of_booleans
    [F, np.uint8, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (B, I32, np.bool_))],
    ids=["f32", "ui8", "bf16", "i32", "i1"],
)
def test_scatter_by_name(dtype):
    x, updates = (random((7, 5), s, F, 0, 4).astype(dtype) for s in (1, 2))
    names = ("set", "max", "min") if dtype is np.bool_ else ("set", "add", "max", "min", "mul")
    cases = {name: (lambda x, u, name=name: getattr(x.at[ROWS], name)(u), (x, updates[:6])) for name in names}
    cases["elements"] = (lambda x, u: x.at[ROWS[:3], ROWS[1:4]].set(u), (x, updates[0, :3]))
    cases["columns"] = (lambda x, u: x.at[:, ROWS[:2]].max(u), (x, updates[:, :2]))
    cases["window"] = (lambda x, u: x.at[2:4, 1:3].set(u), (x, updates[:2, :2]))
    cases["batched"] = (
        lambda x, u: jax.vmap(lambda x, u: x.at[ROWS % 5].max(u))(x, u),
        (x, np.tile(updates, 2)[:, :6]),
    )
    check_all(cases, tolerance=1e-6)


SCATTER = """func.func @main(%x: tensor<4x6xf32>, %i: tensor<5x2xi32>, %u: tensor<5x2x3xf32>) -> tensor<4x6xf32> {{
  %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1, 2], scatter_dims_to_operand_dims = {dims}, index_vector_dim = 1>}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %k = stablehlo.constant dense<0.5> : tensor<f32>
      %1 = stablehlo.multiply %a, %k : tensor<f32>
      %2 = stablehlo.subtract %b, %1 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
  }}) : (tensor<4x6xf32>, tensor<5x2xi32>, tensor<5x2x3xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}}"""


@pytest.mark.parametrize("dims", ["[0, 1]", "[1, 0]"])
def test_scatter_by_body_keeps_the_order_of_updates(dims):
    """a/2 - b is neither commutative nor associative; windows overlap, and meet one place up to four times."""
    starts = np.array([[0, 0], [1, 1], [0, 1], [1, -4], [-3, 0]], I32)
    same(SCATTER.format(dims=dims), random((4, 6)), starts, random((5, 2, 3), 1), relative=1e-6)


def test_scatter_in_batches_whose_dim_follows_the_index_vector():
    source = """func.func @main(%x: tensor<3x5xi32>, %i: tensor<1x3x2xi32>, %u: tensor<3x2xi32>) -> tensor<3x5xi32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [1],
        scatter_dims_to_operand_dims = [1], index_vector_dim = 0>}> ({
        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
          %1 = stablehlo.add %a, %b : tensor<i32>
          stablehlo.return %1 : tensor<i32>
      }) : (tensor<3x5xi32>, tensor<1x3x2xi32>, tensor<3x2xi32>) -> tensor<3x5xi32>
      return %0 : tensor<3x5xi32>
    }"""
    at = np.array([[[0, 4], [1, 1], [2, 9]]], I32)
    same(source, np.zeros((3, 5), I32), at, np.arange(1, 7, dtype=I32).reshape(3, 2))


def test_scatter_of_several_tensors_at_once():
    source = """func.func @main(%x: tensor<6xf32>, %y: tensor<6xi32>, %i: tensor<4x1xi32>, %u: tensor<4xf32>,
        %v: tensor<4xi32>) -> (tensor<6xf32>, tensor<6xi32>) {
      %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
          %1 = stablehlo.compare GT, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f32>
          %3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<i32>
          stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
      }) : (tensor<6xf32>, tensor<6xi32>, tensor<4x1xi32>, tensor<4xf32>, tensor<4xi32>) ->
        (tensor<6xf32>, tensor<6xi32>)
      return %0#0, %0#1 : tensor<6xf32>, tensor<6xi32>
    }"""
    at = np.array([[1], [3], [1], [1]], I32)
    same(source, random((6,)), np.arange(6, dtype=I32), at, random((4,), 1), np.arange(10, 14, dtype=I32))


def test_argmax_and_its_like():
    x = random((4, 5, 7))
    x[1, 2, 3] = np.nan
    x[0, 0] = 1
    cases = {f"{f.__name__} {a}": (lambda x, f=f, a=a: f(x, a), (x,)) for f in (jnp.argmax, jnp.argmin) for a in (0, 2)}
    cases["all"] = (jnp.argmax, (x,))
    cases["integers"] = (lambda x: jnp.argmin(x, 1), ((x[0] * 3).astype(I32),))
    cases["last that is not 0"] = (
        lambda x: lax.reduce(x, I32(0), lambda a, b: lax.select(b != 0, b, a), (1,)),
        (np.arange(35, dtype=I32).reshape(5, 7) % 4 % 3,),
    )
    cases["product of differences"] = (lambda x: lax.reduce(x, F(2), lambda a, b: a + b - a * b, (1,)), (x[:1],))
    check_all(cases)


def test_reduce_of_several_tensors_with_one_body():
    def both(a, b):
        return lax.reduce((a, b), (F(0), I32(-(2**31))), lambda x, y: (x[0] + y[0], lax.max(x[1], y[1])), (0, 2))

    check(both, random((3, 4, 5)), np.arange(60, dtype=I32).reshape(3, 4, 5), tolerance=1e-6)
    check(lambda x: lax.reduce_xor(x, axes=(0,)), np.arange(12, dtype=np.uint8).reshape(4, 3))


def test_windows_of_any_rank_and_body():
    x = random((2, 6, 5, 7), 1, F, 0.5, 1.5)
    holes = {"base_dilation": (1, 2, 1, 3), "window_dilation": (1, 1, 2, 1)}
    check_all(
        {
            "three dims": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 3), (1, 1, 2, 2), "SAME"), (x,)),
            "holes": (
                lambda x: lax.reduce_window(x, F(0), lax.add, (1, 2, 2, 2), (1, 1, 1, 2), "VALID", **holes),
                (x,),
            ),
            "start": (lambda x: lax.reduce_window(x, F(2), lax.add, (1, 3, 1, 1), (1, 1, 1, 1), "VALID"), (x,)),
            "product": (lambda x: lax.reduce_window(x, F(1), lax.mul, (1, 3, 1, 2), (1, 2, 1, 1), "SAME"), (x,)),
            "cumulative": (lambda x: (lax.cumprod(x, 3), lax.cummax(x, 2, reverse=True)), (x,)),
            "booleans": (
                lambda x: lax.reduce_window(x > 1, False, lax.bitwise_or, (1, 2, 2, 1), (1, 1, 1, 1), "SAME"),
                (x,),
            ),
        },
        tolerance=4e-6,
    )


def test_gradient_of_pooling():
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    def slope(x, g):
        return jax.vjp(pool, x)[1](g)[0]

    drawn = (random((2, 7, 8, 3)), random((2, 4, 4, 3), 1))
    equal = (np.zeros((1, 4, 4, 1), F), np.ones((1, 2, 2, 1), F))
    check_all({"drawn": (slope, drawn), "equal": (slope, equal)}, tolerance=1e-6)


def test_map_is_its_body_on_whole_tensors():
    source = """func.func @main(%x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> (tensor<3x4xf32>) {
      %0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %k = stablehlo.constant dense<0.5> : tensor<f32>
          %1 = stablehlo.negate %k : tensor<f32>
          %2 = stablehlo.maximum %a, %1 : tensor<f32>
          %3 = stablehlo.multiply %2, %b : tensor<f32>
          stablehlo.return %3 : tensor<f32>
      }) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
      return %0 : tensor<3x4xf32>
    }"""
    same(source, random((3, 4)), random((3, 4), 1), relative=1e-7)


@pytest.mark.parametrize(
    # quick: one, several tiles
    "size",
    [1, *(pytest.param(size, marks=pytest.mark.slow) for size in (2, 7, 64)), 100],
)
def test_sort(size):
    x = random((3, size))
    x[0, : size // 3] = [np.nan, -0.0, 0.0, np.inf, -np.inf][size % 5]
    keys = np.random.default_rng(size).integers(0, 4, (3, size)).astype(I32)
    check_all(
        {
            "floats": (lambda x: lax.sort(x, 1), (x,)),
            "other dim": (lambda x: lax.sort(x, 0), (x,)),
            "stable": (
                lambda k, x: lax.sort((k, x), 1, num_keys=1),
                (keys, np.arange(3 * size, dtype=I32).reshape(3, size)),
            ),
            "two keys": (lambda k, j: lax.sort((k, j), 1, num_keys=2), (keys, keys[::-1])),
            "descending": (lambda k: jnp.argsort(k, 1, descending=True), (keys,)),
            "largest": (lambda x: lax.top_k(x, max(size // 2, 1)), (x,)),
            "largest integers": (lambda k: lax.top_k(k, max(size // 2, 1)), (keys,)),
        }
    )


def test_total_order_of_floats():
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7F800000, 0xFF800000, 0, 0x80000000, 0x3F800000, 0xBF800000], np.uint32)
    kinds = "(tensor<64xf32>, tensor<64xf32>) -> tensor<64xi1>"
    ways = [f"%{way} = stablehlo.compare {way}, %a, %b, TOTALORDER : {kinds}\n" for way in ("LT", "GE", "EQ")]
    source = f"""func.func @main(%a: tensor<64xf32>, %b: tensor<64xf32>)
        -> (tensor<64xi1>, tensor<64xi1>, tensor<64xi1>) {{
      {"".join(ways)}
      return %LT, %GE, %EQ : tensor<64xi1>, tensor<64xi1>, tensor<64xi1>
    }}"""
    pairs = np.array(list(itertools.product(bits, bits)), np.uint32)
    same(source, pairs[:, 0].view(F).copy(), pairs[:, 1].view(F).copy())


def test_select_and_scatter_of_booleans():
    ways = (("GE", "or"), ("GT", "xor"), ("LE", "and"), ("EQ", "add"))
    ops = [
        f"""%{select} = "stablehlo.select_and_scatter"(%x, %s, %{"one" if scatter == "and" else "zero"}) <{{
               window_dimensions = array<i64: 3>, window_strides = array<i64: 2>,
               padding = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{
            ^bb0(%a: tensor<i1>, %b: tensor<i1>):
              %1 = stablehlo.compare {select}, %a, %b : (tensor<i1>, tensor<i1>) -> tensor<i1>
              stablehlo.return %1 : tensor<i1>
          }}, {{
            ^bb0(%a: tensor<i1>, %b: tensor<i1>):
              %1 = stablehlo.{scatter} %a, %b : tensor<i1>
              stablehlo.return %1 : tensor<i1>
          }}) : (tensor<8xi1>, tensor<4xi1>, tensor<i1>) -> tensor<8xi1>"""
        for select, scatter in ways
    ]
    names, kinds = (", ".join(words) for words in ([f"%{select}" for select, _ in ways], ["tensor<8xi1>"] * 4))
    same(
        f"""func.func @main(%x: tensor<8xi1>, %s: tensor<4xi1>, %zero: tensor<i1>, %one: tensor<i1>) -> ({kinds}) {{
          {" ".join(ops)}
          return {names} : {kinds}
        }}""",
        *(np.array(bits, np.bool_) for bits in ([0, 1, 1, 0, 1, 1, 0, 0], [1, 1, 0, 1], False, True)),
    )


def test_top_k_of_booleans():
    """True is above False, and of equals the first comes first."""
    source = """func.func @main(%x: tensor<2x4xi1>) -> (tensor<2x3xi1>, tensor<2x3xi32>) {
      %0:2 = chlo.top_k(%x, k = 3) : tensor<2x4xi1> -> (tensor<2x3xi1>, tensor<2x3xi32>)
      return %0#0, %0#1 : tensor<2x3xi1>, tensor<2x3xi32>
    }"""
    values, indices = programs.simulate(source, np.array([[0, 1, 0, 1], [0, 0, 0, 1]], np.bool_))
    assert values.dtype == np.bool_
    assert values.tolist() == [[True, True, False], [True, False, False]]
    assert indices.tolist() == [[1, 3, 0], [3, 0, 1]]
