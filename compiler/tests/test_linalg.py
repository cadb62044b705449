"""Linear algebra, batch normalisation's gradient, convolutions of any rank, random bits: against XLA on the CPU."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from opscope.compiler import api
from opscope.compiler.errors import StageFailure
from opscope.compiler.tests import programs
from opscope.compiler.tests.programs import random
from opscope.compiler.tests.test_against_xla import MATRIX, check, check_all

F, B = np.float32, ml_dtypes.bfloat16


def positive(*shape: int) -> np.ndarray:
    x = random((*shape, shape[-1]), 3)
    return x @ x.swapaxes(-1, -2) + 2 * np.eye(shape[-1], dtype=F)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(lower):
    x = positive(2, 3, 6)
    source = f"""func.func @main(%x: tensor<2x3x6x6xf32>) -> tensor<2x3x6x6xf32> {{
      %0 = stablehlo.cholesky %x, lower = {str(lower).lower()} : tensor<2x3x6x6xf32>
      return %0 : tensor<2x3x6x6xf32>
    }}"""
    (got,) = programs.simulate(source, x)
    want = np.linalg.cholesky(x.astype(np.float64))
    np.testing.assert_allclose(got, want if lower else want.swapaxes(-1, -2), atol=1e-5)
    (bad,) = programs.simulate(source, -x)
    assert np.isnan(bad).any()


SOLVE = """func.func @main(%a: tensor<2x5x5x{kind}>, %b: tensor<2x{shape}x{kind}>) -> tensor<2x{shape}x{kind}> {{
  %0 = "stablehlo.triangular_solve"(%a, %b) <{{left_side = {left}, lower = {lower}, unit_diagonal = {unit},
    transpose_a = #stablehlo<transpose {transpose}>}}> :
    (tensor<2x5x5x{kind}>, tensor<2x{shape}x{kind}>) -> tensor<2x{shape}x{kind}>
  return %0 : tensor<2x{shape}x{kind}>
}}"""


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    # quick: f32; the narrower type, test_against_xla.py
    [("f32", 1e-5), pytest.param("bf16", 2**-7, marks=pytest.mark.slow)],
)
def test_triangular_solve(kind, tolerance):
    dtype = {"f32": F, "bf16": B}[kind]
    a = (random((2, 5, 5), 1, low=-0.4, high=0.4) + 2 * np.eye(5, dtype=F)).astype(dtype)
    flags = ("false", "true")
    for left, lower, unit, transpose in itertools.product(flags, flags, flags, ("NO_TRANSPOSE", "ADJOINT")):
        shape = "5x3" if left == "true" else "3x5"
        source = SOLVE.format(kind=kind, shape=shape, left=left, lower=lower, unit=unit, transpose=transpose)
        b = random((2, 5, 3) if left == "true" else (2, 3, 5), 2, dtype)
        used = (np.tril if lower == "true" else np.triu)(a.astype(np.float64))
        if unit == "true":
            used[:, range(5), range(5)] = 1
        used = used if transpose == "NO_TRANSPOSE" else used.swapaxes(-1, -2)
        (got,) = programs.simulate(source, a, b)
        product = used @ got.astype(np.float64) if left == "true" else got.astype(np.float64) @ used
        np.testing.assert_allclose(product, b.astype(np.float64), atol=8 * tolerance, err_msg=source)


NORM_GRAD = """func.func @main(%x: tensor<4x5x6xf32>, %s: tensor<5xf32>, %m: tensor<5xf32>, %v: tensor<5xf32>,
    %g: tensor<4x5x6xf32>) -> (tensor<4x5x6xf32>, tensor<5xf32>, tensor<5xf32>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> :
    (tensor<4x5x6xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<4x5x6xf32>) ->
    (tensor<4x5x6xf32>, tensor<5xf32>, tensor<5xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x5x6xf32>, tensor<5xf32>, tensor<5xf32>
}"""


def test_batch_norm_grad():
    x, g = random((4, 5, 6), 1), random((4, 5, 6), 2)
    mean, variance, scale = x.mean((0, 2)), x.var((0, 2)), random((5,), 3, low=0.5, high=2)

    def normalise(x, scale, offset):
        m, v = jnp.mean(x, (0, 2), keepdims=True), jnp.var(x, (0, 2), keepdims=True)
        return scale[:, None] * (x - m) / jnp.sqrt(v + 0.01) + offset[:, None]

    want = programs.jit(lambda *args: jax.vjp(normalise, *args[:3])[1](args[3]))(x, scale, np.zeros(5, F), g)
    for got, gradient in zip(programs.simulate(NORM_GRAD, x, scale, mean, variance, g), want, strict=True):
        np.testing.assert_allclose(got, gradient, atol=5 * MATRIX * np.abs(gradient).max())


def test_convolutions_of_one_and_three_dims():
    volume, kernel = random((2, 5, 6, 7, 4), 1, F, 0.5, 1.5), random((2, 3, 2, 4, 6), 2, F, 0.5, 1.5)
    numbers = ("NDHWC", "DHWIO", "NDHWC")

    def conv(x, w, **more):
        return lax.conv_general_dilated(x, w, **({"window_strides": (1, 2, 1), "padding": "SAME"} | more))

    volumes = {
        "plain": {},
        "holes": {"rhs_dilation": (2, 1, 2), "lhs_dilation": (1, 2, 1), "padding": [(1, 0), (-1, 2), (0, 1)]},
    }
    cases = {
        n: (lambda x, w, o=o: conv(x, w, dimension_numbers=numbers, **o), (volume, kernel)) for n, o in volumes.items()
    }
    cases["groups"] = (
        lambda x, w: conv(x, w, dimension_numbers=numbers, feature_group_count=2),
        (volume, kernel[..., :2, :]),
    )
    cases["batch groups"] = (lambda x, w: conv(x, w, dimension_numbers=numbers, batch_group_count=2), (volume, kernel))
    cases["channels first"] = (
        lambda x, w: conv(x, w),
        (volume.transpose(0, 4, 1, 2, 3), kernel.transpose(4, 3, 0, 1, 2)),
    )
    cases["transposed"] = (
        lambda x, w: lax.conv_transpose(x, w, (2, 1, 2), "SAME", dimension_numbers=numbers),
        (volume, kernel),
    )
    cases["one dim"] = (
        lambda x, w: lax.conv_general_dilated(x, w, (2,), [(1, 2)], dimension_numbers=("NWC", "WIO", "NWC")),
        (volume[0, 0], kernel[0, 0]),
    )
    check_all(cases, tolerance=MATRIX)


def test_four_spatial_dims_are_refused():
    with pytest.raises(StageFailure, match="at most 3 spatial dims"):
        api.compile(
            programs.stablehlo(lambda x, w: lax.conv(x, w, (1,) * 4, "SAME"), *[np.ones((1,) * 6, F)] * 2),
            programs.BOARD,
        )


KEY = np.array([0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF], np.uint64)


@pytest.mark.parametrize(
    "algorithm",
    ["THREE_FRY", "PHILOX", pytest.param("DEFAULT", marks=pytest.mark.slow)],  # quick: the one that it is
)
def test_random_bits_are_xlas(algorithm):
    cases = {
        "THREE_FRY": [(s, "ui32", 2) for s in ("", "5x", "3x4x", "2x4x", "3x5x")]
        + [("3x", "ui64", 2), ("7x", "ui8", 2)],
        "PHILOX": [("3x5x", "ui32", 2), ("3x3x", "ui16", 2), ("9x", "ui64", 3)],
        "DEFAULT": [("4x3x", "ui32", 2)],
    }
    lines, names, kinds = [], [], []
    for at, (shape, kind, n) in enumerate(cases[algorithm]):
        results = f"tensor<{n}xui64>, tensor<{shape}{kind}>"
        lines.append(
            f"%s{at}, %o{at} = stablehlo.rng_bit_generator %k{n}, algorithm = {algorithm} : "
            f"(tensor<{n}xui64>) -> ({results})"
        )
        names.append(f"%s{at}, %o{at}")
        kinds.append(results)
    body = "\n".join([*lines, f"return {', '.join(names)} : {', '.join(kinds)}"])
    sizes = sorted({n for _, _, n in cases[algorithm]})
    keys = [KEY[:n] for n in sizes]
    signature = ", ".join(f"%k{n}: tensor<{n}xui64>" for n in sizes)
    source = programs.module(body, f"({signature}) -> ({', '.join(kinds)})")
    for got, want in zip(programs.simulate(source, *keys), programs.xla(source, *keys), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_array_equal(got, want)


def test_64_bits_are_pairs_of_words_where_the_host_meets_them():
    words = np.arange(6, dtype=np.uint32).reshape(3, 2) * np.uint32(0x9E3779B9)
    body = "%0 = stablehlo.bitcast_convert %a : ({a}) -> {b}\n return %0 : {b}"
    for a, b, value in (
        ("tensor<3x2xui32>", "tensor<3xui64>", words),
        ("tensor<3xi64>", "tensor<3x2xui32>", words.view(np.int64)[:, 0].copy()),
        ("tensor<3xf32>", "tensor<3x4xui8>", random((3,))),
        ("tensor<3x2xbf16>", "tensor<3xi32>", random((3, 2)).astype(B)),
    ):
        source = programs.module(body.format(a=a, b=b), f"(%a: {a}) -> {b}")
        (got,), (want,) = programs.simulate(source, value), programs.xla(source, value)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_random_state_may_be_a_constant():
    def bits():
        return lax.rng_bit_generator(jnp.array([1, 2, 3, 4], jnp.uint32), (5, 2))

    check(bits)
