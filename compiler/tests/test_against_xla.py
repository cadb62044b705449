"""Every lowered op, compiled, simulated, and compared with XLA on the CPU.

Integers, booleans and data movement must be equal; floats within what the device's formats allow: TF32 operands in
the matrix unit (10 bits, truncated), 4 ulp in the SFPU, half a unit of bfloat16's last place after packing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from opscope.base.xla import xla_releases
from opscope.compiler.tests import programs
from opscope.compiler.tests.programs import random

F, B, H = np.float32, ml_dtypes.bfloat16, np.float16
FLOATS = [pytest.param(F, id="f32"), pytest.param(B, marks=pytest.mark.slow, id="bf16")]
"""Quick: float32; in bfloat16 `test_binary`, and each kernel by itself in simulator/tests."""
MATRIX = 4e-3
"""Relative to the largest element: two operands truncated to 10 bits each."""


def check(function: Callable[..., Any], *args: Any, tolerance: float = 2e-6) -> None:
    """One function against XLA; `tolerance` is relative to the largest golden element."""
    check_all({"": (function, args)}, tolerance)


def check_all(cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]], tolerance: float = 2e-6) -> None:
    """Many functions as one module (XLA's time is in compiling), each against XLA's answer.

    bfloat16 goldens are XLA's in float32, rounded once: XLA itself rounds between the ops that it expands an op to.
    """

    def together(arguments: list[Any]) -> list[Any]:
        return [function(*args) for (function, _), args in zip(cases.values(), arguments, strict=True)]

    arguments = [list(args) for _, args in cases.values()]
    wide = [[a.astype(F) if getattr(a, "dtype", None) == B else a for a in args] for args in arguments]
    shapes = jax.eval_shape(together, arguments)
    golden = programs.jit(lambda a: jax.tree.map(lambda x, s: x.astype(s.dtype), together(a), shapes))(wide)
    flat = jax.tree.leaves(arguments)
    results = programs.simulate(programs.stablehlo(together, arguments), *flat)
    names = [n for n, r in zip(cases, golden, strict=True) for _ in jax.tree.leaves(r)]
    for name, got, reference in zip(names, results, jax.tree.leaves(golden), strict=True):
        want = np.asarray(reference)
        assert (got.dtype, got.shape) == (want.dtype, want.shape), name
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want, name)
            continue
        narrow = {2: 2**-7 if want.dtype == B else 2**-9}.get(want.dtype.itemsize, 0.0)
        a, b = got.astype(np.float64), want.astype(np.float64)
        finite = np.isfinite(b)
        np.testing.assert_array_equal(np.isfinite(a), finite, name)
        scale = np.abs(b[finite]).max(initial=1e-30)
        atol = max(tolerance, narrow / 4) * scale
        np.testing.assert_allclose(a[finite], b[finite], rtol=max(narrow, 4e-6), atol=atol, err_msg=name)


UNARY: dict[str, tuple[Callable[..., Any], float, float]] = {
    "abs": (jnp.abs, -2, 2),
    "cbrt": (jnp.cbrt, -2, 2),
    "ceil": (jnp.ceil, -9, 9),
    "cos": (jnp.cos, -3, 3),
    "exp": (jnp.exp, -3, 3),
    "expm1": (jnp.expm1, -3, 3),
    "floor": (jnp.floor, -9, 9),
    "log": (jnp.log, 0.1, 5),
    "log1p": (jnp.log1p, -0.5, 5),
    "logistic": (lax.logistic, -5, 5),
    "negate": (jnp.negative, -2, 2),
    "round_afz": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), -9, 9),
    "round_even": (jnp.rint, -9, 9),
    "rsqrt": (lax.rsqrt, 0.1, 5),
    "sign": (jnp.sign, -2, 2),
    "sin": (jnp.sin, -3, 3),
    "sqrt": (jnp.sqrt, 0.1, 5),
    "tan": (jnp.tan, -1.4, 1.4),
    "tanh": (jnp.tanh, -3, 3),
    "erf": (lax.erf, -3, 3),
    "erfc": (lax.erfc, -2, 3),
    "erf_inv": (lax.erf_inv, -0.9, 0.9),
    "square": (lax.square, -3, 3),
    "acos": (jnp.arccos, -0.9, 0.9),
    "acosh": (jnp.arccosh, 1.5, 4),
    "asin": (jnp.arcsin, -0.9, 0.9),
    "asinh": (jnp.arcsinh, -3, 3),
    "atan": (jnp.arctan, -3, 3),
    "atanh": (jnp.arctanh, -0.9, 0.9),
    "cosh": (jnp.cosh, -2, 2),
    "sinh": (jnp.sinh, -2, 2),
    "lgamma": (lax.lgamma, 0.5, 4),
}


def test_xla_compiles_quickly_here() -> None:
    """Each function is compiled once: conftest.py has JAX say so."""
    from jax._src import compiler

    made = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    assert dict(made.env_option_overrides) == xla_releases.quick_options()


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary(dtype):
    names = [n for n in UNARY if not (n == "lgamma" and dtype is B)]  # 30 ops, each rounded to bfloat16
    check_all({n: (UNARY[n][0], (random((5, 40), 1, dtype, *UNARY[n][1:]),)) for n in names}, tolerance=1e-5)


BINARY = {
    "add": jnp.add,
    "subtract": jnp.subtract,
    "multiply": jnp.multiply,
    "divide": lax.div,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "remainder": lax.rem,
}


@pytest.mark.parametrize("dtype", [F, B, np.int32, np.uint32, np.int8], ids=["f32", "bf16", "i32", "ui32", "i8"])
def test_binary(dtype):
    a, b = random((3, 33), 1, F, -100, 100), random((3, 33), 2, F, 1, 30)
    if np.dtype(dtype).kind == "u":
        a = np.abs(a)
    check_all({name: (function, (a.astype(dtype), b.astype(dtype))) for name, function in BINARY.items()})


def test_power_and_atan2():
    power = (jnp.power, (random((4, 5), 1, F, 0.1, 3), random((4, 5), 2, F, -2, 2)))
    check_all({"power": power, "atan2": (lax.atan2, (random((4, 5), 1), random((4, 5), 2)))}, tolerance=1e-5)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.uint8], ids=["i1", "i32", "ui8"])
def test_bitwise(dtype):
    a, b = (np.random.default_rng(s).integers(0, 2 if dtype is np.bool_ else 200, 50).astype(dtype) for s in (1, 2))
    check_all(
        {
            "and": (lax.bitwise_and, (a, b)),
            "or": (lax.bitwise_or, (a, b)),
            "xor": (lax.bitwise_xor, (a, b)),
            "not": (lax.bitwise_not, (a,)),
        }
    )


@pytest.mark.parametrize("dtype", [np.int32, np.uint32], ids=["i32", "ui32"])
def test_shifts_and_bit_counts(dtype):
    a = np.random.default_rng(1).integers(-(2**31), 2**31, 20).astype(np.int64).astype(dtype)
    n = (np.arange(20) % 32).astype(dtype)

    def shifted(a, n):
        return lax.shift_left(a, n), lax.shift_right_logical(a, n), lax.shift_right_arithmetic(a, n)

    check_all({"shifts": (shifted, (a, n)), "counts": (lambda a: (lax.population_count(a), lax.clz(a)), (a,))})


@pytest.mark.parametrize("dtype", [*FLOATS, pytest.param(np.int32, id="i32"), pytest.param(np.bool_, id="i1")])
def test_compare(dtype):
    a, b = (np.random.default_rng(s).integers(0, 3, 30).astype(dtype) for s in (1, 2))
    check_all({name: (getattr(lax, name), (a, b)) for name in ("eq", "ne", "lt", "le", "gt", "ge")})


def test_compare_with_nan():
    a = np.array([np.nan, 1, np.nan, np.inf], F)
    b = np.array([np.nan, np.nan, 1, np.inf], F)
    check(lambda a, b: (lax.eq(a, b), lax.ne(a, b), lax.lt(a, b), lax.ge(a, b), jnp.isfinite(a)), a, b)


CASTS = [(F, np.int32), (F, B), (B, F), (np.int32, F), (np.bool_, F), (F, np.bool_), (np.int32, np.int8)]


def test_selection_and_conversion():
    a, b = random((4, 6), 1), random((4, 6), 2)
    check_all(
        {
            "where": (jnp.where, (a > 0, a, b)),
            "scalar predicate": (lax.select, (np.bool_(True), a, b)),
            "clip": (lambda x: jnp.clip(x, -0.5, 0.5), (a,)),
            "clamp": (lax.clamp, (np.float32(-1), a, np.float32(1))),
            "bits": (lambda x: lax.bitcast_convert_type(x, np.int32), (a,)),
            "precision": (lambda x: lax.reduce_precision(x, 5, 4), (a,)),
        }
        | {f"{s} to {t}": (lambda x, t=t: x.astype(t), ((a * 50).astype(s),)) for s, t in CASTS}
    )


@pytest.mark.parametrize(
    "dtype",
    # quick: [f32], of as many bytes; booleans, test_bitwise[i1]
    [
        *FLOATS,
        *(pytest.param(kind, marks=pytest.mark.slow, id=id) for kind, id in ((np.int32, "i32"), (np.bool_, "i1"))),
    ],
)
def test_data_movement(dtype):
    x = np.arange(3 * 4 * 5).reshape(3, 4, 5).astype(dtype)
    one = np.array(1, dtype)
    check_all(
        {
            "transpose": (lambda x: jnp.transpose(x, (2, 0, 1)), (x,)),
            "reshape": (lambda x: x.reshape(5, 12), (x,)),
            "broadcast": (lambda x: lax.broadcast_in_dim(x, (3, 2, 4, 5), (0, 2, 3)), (x,)),
            "slice": (lambda x: x[:, 1:4:2, 2:], (x,)),
            "reversed slice": (lambda x: x[1:3, ::2, 4:0:-2], (x,)),
            "concatenate": (lambda x, y: jnp.concatenate([x, y, x], 1), (x, x[::-1])),
            "reverse": (lambda x: jnp.flip(x, (0, 2)), (x,)),
            "pad": (lambda x: lax.pad(x, one.astype(x.dtype), [(1, 2, 0), (-1, 0, 1), (0, -2, 2)]), (x,)),
            "pad by operand": (lambda x, v: lax.pad(x, v, [(1, 0, 0)] * 3), (x, one)),
            "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i, 2), (2, 3, 2)), (x, np.int32(7))),
            "update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 1, i)), (x, x[:2, :2, 1:], np.int32(1))),
            "clamped update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, -3, 9)), (x, x[:1, 2:], np.int32(7))),
            "unsigned": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, i, i)), (x, x[:, :1, :1], np.uint32(2))),
            "clamped": (lambda x: lax.dynamic_slice(x, (-1, 1, 9), (1, 2, 3)), (x,)),
        }
    )


@pytest.mark.parametrize("dtype", [F, pytest.param(np.int32, marks=pytest.mark.slow)], ids=["f32", "i32"])  # quick: f32
def test_gather(dtype):
    table = np.arange(60).reshape(12, 5).astype(dtype)
    rows = np.array([[3, 0], [11, 40], [-1, 5]], np.int32)
    check_all(
        {
            "rows": (lambda t, i: t[i], (table, rows)),
            "elements": (lambda t, i: t[i[:, 0], i[:, 1]], (table, rows)),
            "transposed elements": (lambda t, i: t.T[i[:, 1], i[:, 0]], (table, rows)),
            "columns": (lambda t, i: jnp.take(t, i, axis=1, mode="clip"), (table, rows % 5)),
            "batched": (lambda t, i: jnp.take_along_axis(t, i, axis=1, mode="clip"), (table[:3], rows % 5)),
        }
    )


def test_broadcast_to_dims_out_of_order():
    """JAX never writes them; the specification allows them."""
    line = "%0 = stablehlo.broadcast_in_dim %a, dims = [3, 0, 2] : (tensor<3x4x5xf32>) -> tensor<4x2x5x3xf32>"
    source = programs.module(
        f"{line}\n return %0 : tensor<4x2x5x3xf32>", "(%a: tensor<3x4x5xf32>) -> tensor<4x2x5x3xf32>"
    )
    x = random((3, 4, 5))
    golden = np.broadcast_to(x.transpose(1, 2, 0)[:, None], (4, 2, 5, 3))
    np.testing.assert_array_equal(programs.simulate(source, x)[0], golden)


def test_creation():
    check(lambda: (jnp.arange(7), lax.broadcasted_iota(F, (3, 4), 1), jnp.full((2, 3), 1.5, B), jnp.eye(3)))
    check(lambda: (jnp.asarray([[1.5, np.inf], [np.nan, 3]], F), jnp.asarray([True, False]), jnp.asarray([2**31 - 1])))


@pytest.mark.parametrize("dtype", [*FLOATS, pytest.param(np.int32, id="i32")])
def test_reduce(dtype):
    x = random((4, 5, 37), 1, F, 0.2, 9).astype(dtype)  # one sign: the matrix unit truncates each summand to TF32

    def fold(x, axes):
        total = lax.reduce(x, np.array(0, x.dtype), lax.add, axes)
        return jnp.max(x, axes), jnp.min(-x, axes), lax.reduce(x, np.array(5, x.dtype), lax.max, axes), total

    check_all({str(a): (lambda x, a=a: fold(x, a), (x,)) for a in ((1,), (0, 2), (0, 1, 2))}, tolerance=MATRIX)


def test_reduce_of_integers_and_booleans():
    x = np.random.default_rng(1).integers(-9, 9, (4, 6)).astype(np.int32)
    check(
        lambda x: (
            x.sum(0),
            x.prod(1),
            jnp.all(x > -8, 0),
            jnp.any(x > 6, 1),
            lax.reduce(x, np.int32(-1), lax.bitwise_and, (0,)),
            lax.reduce(x, np.int32(0), lax.bitwise_xor, (1,)),
            lax.reduce(x > 0, np.bool_(False), lax.bitwise_xor, (1,)),
        ),
        x,
    )


DOTS = {
    "matmul": ("ij,jk->ik", (5, 40), (40, 7)),
    "left transposed": ("ji,jk->ik", (40, 5), (40, 7)),
    "right transposed": ("ij,kj->ik", (5, 40), (7, 40)),
    "batched": ("bij,bjk->bik", (3, 5, 16), (3, 16, 7)),
    "heads": ("bqhd,bkhd->bhqk", (2, 5, 3, 8), (2, 6, 3, 8)),
    "two contracted": ("ijk,kjl->il", (3, 4, 5), (5, 4, 6)),
    "vector": ("ij,j->i", (5, 40), (40,)),
    "scalar": ("i,i->", (40,), (40,)),
    "outer": ("i,j->ij", (4,), (5,)),
}


@pytest.mark.parametrize("dtype", [*FLOATS, pytest.param(np.int32, id="i32")])
def test_dot_general(dtype):
    cases = {}
    for name, (equation, left, right) in DOTS.items():
        a, b = (random(s, i, F, 0.5, 4).astype(dtype) for i, s in enumerate((left, right)))
        cases[name] = (functools.partial(jnp.einsum, equation), (a, b))
    check_all(cases, tolerance=MATRIX)


def test_dot_general_into_a_wider_type():
    a, b = random((4, 8), 1, B), random((8, 3), 2, B)
    check(lambda a, b: lax.dot(a, b, preferred_element_type=F), a, b, tolerance=MATRIX)


CONVS: dict[str, dict[str, Any]] = {
    "nhwc": {"dims": ("NHWC", "HWIO", "NHWC"), "x": (2, 9, 8, 3), "w": (3, 3, 3, 4), "stride": (2, 1)},
    "nchw": {"dims": ("NCHW", "OIHW", "NCHW"), "x": (2, 3, 9, 8), "w": (4, 3, 2, 3), "stride": (1, 2)},
    "odd order": {"dims": ("CHNW", "WOIH", "HNCW"), "x": (3, 9, 2, 8), "w": (2, 4, 3, 3), "stride": (1, 1)},
    "dilated": {"dims": ("NHWC", "HWIO", "NHWC"), "x": (1, 12, 12, 2), "w": (3, 3, 2, 4), "rhs": (2, 3)},
    "transposed": {"dims": ("NHWC", "HWIO", "NHWC"), "x": (1, 5, 5, 2), "w": (3, 3, 2, 4), "lhs": (2, 2)},
    "groups": {"dims": ("NHWC", "HWIO", "NHWC"), "x": (1, 6, 6, 4), "w": (3, 3, 2, 6), "groups": 2},
    "depthwise": {"dims": ("NHWC", "HWIO", "NHWC"), "x": (1, 6, 6, 4), "w": (3, 3, 1, 4), "groups": 4},
    "negative padding": {
        "dims": ("NHWC", "HWIO", "NHWC"),
        "x": (1, 8, 8, 2),
        "w": (3, 3, 2, 4),
        "pad": [(-1, 2), (3, -2)],
    },
    "batch groups": {"dims": ("NHWC", "HWIO", "NHWC"), "x": (4, 6, 6, 2), "w": (3, 3, 2, 4), "batch_groups": 2},
    "one dim": {"dims": ("NWC", "WIO", "NWC"), "x": (2, 9, 3), "w": (3, 3, 4), "stride": (2,)},
    "no dim": {"dims": ("NC", "IO", "NC"), "x": (2, 3), "w": (3, 4), "stride": ()},
}


def convolve(case, x, w):
    rank = len(case["x"]) - 2
    return lax.conv_general_dilated(
        x,
        w,
        case.get("stride", (1,) * rank),
        case.get("pad", [(1, 0)] * rank),
        case.get("lhs"),
        case.get("rhs"),
        case["dims"],
        case.get("groups", 1),
        case.get("batch_groups", 1),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolution(dtype):
    check_all(
        {
            name: (functools.partial(convolve, case), (random(case["x"], 1, dtype), random(case["w"], 2, dtype)))
            for name, case in CONVS.items()
        },
        tolerance=MATRIX,
    )


def test_reversed_kernel():
    x, w = random((1, 6, 6, 2), 1), random((3, 3, 2, 3), 2)
    source = programs.module(
        """%0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x6x6x2xf32>, tensor<3x3x2x3xf32>) -> tensor<1x4x4x3xf32>
        return %0 : tensor<1x4x4x3xf32>""",
        "(%x: tensor<1x6x6x2xf32>, %w: tensor<3x3x2x3xf32>) -> tensor<1x4x4x3xf32>",
    )
    golden = lax.conv_general_dilated(x, w[::-1], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(programs.simulate(source, x, w)[0], golden, atol=0.05)


WINDOWS = [
    ((2, 9, 8, 3), (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (0, 1), (0, 0)]),
    ((2, 3, 9, 8), (1, 1, 2, 3), (1, 1, 2, 1), [(0, 0), (0, 0), (1, 0), (1, 1)]),
    ((3, 9), (1, 4), (1, 2), [(0, 0), (2, 1)]),
    ((7,), (7,), (1,), [(6, 0)]),
    ((4, 3, 5), (2, 1, 2), (1, 1, 3), [(0, 0), (0, 0), (0, 0)]),
]


@pytest.mark.parametrize(
    "dtype",
    # quick: [f32]; integers, test_reduce[i32]
    [*FLOATS, pytest.param(np.int32, marks=pytest.mark.slow, id="i32")],
)
def test_reduce_window(dtype):
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype is np.int32 else (-np.inf, np.inf)
    folds = {"max": (lax.max, low), "min": (lax.min, high), "max from 3": (lax.max, 3), "sum": (lax.add, 0)}

    def pool(x, fold, start, case):
        return lax.reduce_window(x, np.array(start, x.dtype), fold, *case[1:])

    check_all(
        {
            f"{name} {case}": (
                functools.partial(pool, fold=fold, start=start, case=case),
                (random(case[0], 1, F, 0.5, 20).astype(dtype),),
            )
            for case in WINDOWS
            for name, (fold, start) in folds.items()
        },
        tolerance=MATRIX,
    )


def test_batch_norm():
    line = (
        '%0 = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) {epsilon = 0.01 : f32, feature_index = 1 : i64}'
        " : (tensor<4x3x5xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<4x3x5xf32>"
    )
    signature = "(%x: tensor<4x3x5xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>)"
    source = programs.module(f"{line}\n return %0 : tensor<4x3x5xf32>", f"{signature} -> tensor<4x3x5xf32>")
    x, s, o, m = random((4, 3, 5), 1), random((3,), 2), random((3,), 3), random((3,), 4)
    v = np.abs(random((3,), 5))
    s_, o_, m_, v_ = (a.reshape(1, 3, 1) for a in (s, o, m, v))
    golden = (x - m_) / np.sqrt(v_ + np.float32(0.01)) * s_ + o_
    np.testing.assert_allclose(programs.simulate(source, x, s, o, m, v)[0], golden, rtol=1e-4, atol=1e-5)


def test_batch_norm_training():
    line = (
        '%0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {epsilon = 0.01 : f32, feature_index = 2 : i64}'
        " : (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>)"
    )
    results = "tensor<4x6x3xf32>, tensor<3xf32>, tensor<3xf32>"
    source = programs.module(
        f"{line}\n return %0#0, %0#1, %0#2 : {results}",
        f"(%x: tensor<4x6x3xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>) -> ({results})",
    )
    x, s, o = random((4, 6, 3), 1), random((3,), 2), random((3,), 3)
    mean, variance = x.mean((0, 1)), x.var((0, 1))
    golden = (x - mean) / np.sqrt(variance + np.float32(0.01)) * s + o
    outputs = programs.simulate(source, x, s, o)
    for got, want in zip(outputs, (golden, mean, variance), strict=True):
        np.testing.assert_allclose(got, want, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_transformer_block_end_to_end(dtype):
    def block(x, w):
        y = x @ w
        y = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", y, y) / 4)
        z = jnp.einsum("bqk,bkd->bqd", y, x)
        z = (z - z.mean(-1, keepdims=True)) * lax.rsqrt(z.var(-1, keepdims=True) + 1e-5)
        return jax.nn.gelu(z, approximate=False)

    check(block, random((2, 9, 16), 1, dtype), random((16, 16), 2, dtype) / 2, tolerance=0.02 if dtype is F else 0.08)
