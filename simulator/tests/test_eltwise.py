from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from numpy.testing import assert_array_equal

from opscope.compiler.target.program import EltwiseParams, Numerics
from opscope.compiler.tests import programs
from opscope.simulator.api import Device, KernelError, UnsupportedKernel, error_bound
from opscope.simulator.kernels import KERNELS
from opscope.simulator.kernels.eltwise import BINARY, UNARY
from opscope.simulator.tests.programs import run_kernel

RANDOM = np.random.default_rng(3)
NONE = EltwiseParams()


def xla(function: Callable[..., jax.Array], *args: np.ndarray) -> np.ndarray:
    """What XLA computes on the CPU."""
    return np.asarray(programs.jit(function)(*args))


# Function in float64, and where to sample it.
TRUE = {
    "exp": (np.exp, -80, 80),
    "exp2": (np.exp2, -100, 100),
    "expm1": (np.expm1, -10, 10),
    "log": (np.log, 1e-6, 1e6),
    "log1p": (np.log1p, -0.99, 50),
    "log2": (np.log2, 1e-6, 1e6),
    "sqrt": (np.sqrt, 0, 1e6),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-6, 1e6),
    "cbrt": (np.cbrt, -1e6, 1e6),
    "reciprocal": (lambda x: 1 / x, 1e-3, 1e6),
    "square": (np.square, -1e6, 1e6),
    "sin": (np.sin, -6, 6),
    "cos": (np.cos, -6, 6),
    "tan": (np.tan, -1.5, 1.5),
    "tanh": (np.tanh, -9, 9),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 0.9),
    "atan": (np.arctan, -50, 50),
    "sinh": (np.sinh, -20, 20),
    "cosh": (np.cosh, -20, 20),
    "asinh": (np.arcsinh, -50, 50),
    "acosh": (np.arccosh, 1.1, 50),
    "atanh": (np.arctanh, -0.99, 0.99),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -30, 30),
    "silu": (lambda x: x / (1 + np.exp(-x)), -30, 30),
    "erf": (np.vectorize(math.erf), -5, 5),
    "erfc": (np.vectorize(math.erfc), -5, 9),
    "gelu": (np.vectorize(lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2))), -8, 8),
    "softsign": (lambda x: x / (1 + abs(x)), -50, 50),
    "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, -4, 4),
}


def ulps(got: np.ndarray, true: np.ndarray) -> float:
    unit = np.spacing(np.abs(true).astype(np.float32)).astype(np.float64)
    return float((np.abs(got.astype(np.float64) - true) / unit).max())


@pytest.mark.parametrize("name", sorted(TRUE))
def test_error_is_within_the_bound_of_the_kernels_row(name: str) -> None:
    """The SFPU's exact mode: no public text gives its bits, so each kernel states a bound (kernels/eltwise.py)."""
    function, low, high = TRUE[name]
    x = RANDOM.uniform(low, high, 4000).astype(np.float32)
    error = ulps(run_kernel(name, NONE, [x], x.shape, "f32"), function(x.astype(np.float64)))
    assert error <= error_bound(name), f"{error:.2f} ulp"
    assert error_bound(name) <= 16


def test_every_inexact_function_is_measured() -> None:
    rows = {row[0] for row in UNARY if row[3] > 0}
    assert rows - set(TRUE) == {"erfinv"}, "erfinv is measured by its round trip below"


def test_inverse_error_function_goes_back() -> None:
    x = np.concatenate([RANDOM.uniform(-1, 1, 2000), [0.99999, -0.99999, 1e-6]]).astype(np.float32)
    y = run_kernel("erfinv", NONE, [x], x.shape, "f32")
    slope = 2 / math.sqrt(math.pi) * np.exp(-(y.astype(np.float64) ** 2))
    true = y - (np.vectorize(math.erf)(y.astype(np.float64)) - x) / slope
    assert ulps(y, true) <= error_bound("erfinv")
    small = np.ldexp(np.float32([1, -1.5]), np.arange(-120, -10)[:, None]).astype(np.float32).ravel()
    linear = small.astype(np.float64) * (math.sqrt(math.pi) / 2)
    assert ulps(run_kernel("erfinv", NONE, [small], small.shape, "f32"), linear * (1 + math.pi / 12 * small**2.0)) <= 4
    ends = run_kernel("erfinv", NONE, [np.float32([1, -1, 2])], (3,), "f32")
    assert ends[0] == np.inf
    assert ends[1] == -np.inf
    assert np.isnan(ends[2])


XLA_FLOAT = {
    "abs": jnp.abs,
    "neg": jnp.negative,
    "sign": jnp.sign,
    "ceil": jnp.ceil,
    "floor": jnp.floor,
    "trunc": jnp.trunc,
    "round_even": jnp.round,
    "round_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "isfinite": jnp.isfinite,
    "signbit": jnp.signbit,
    "relu": lambda x: jnp.maximum(x, 0),
    "relu6": lambda x: jnp.clip(x, 0, 6),
    "logical_not": jnp.logical_not,
}


@pytest.mark.parametrize("name", sorted(XLA_FLOAT))
def test_exact_float_functions_equal_xla(name: str) -> None:
    x = np.concatenate([RANDOM.uniform(-4, 4, 500), [0.5, -0.5, 1.5, -2.5, 0, np.inf, -np.inf]]).astype(np.float32)
    want = xla(XLA_FLOAT[name], x)
    got = run_kernel(name, NONE, [x], x.shape, "i1" if want.dtype == bool else "f32")
    assert_array_equal(got, want)


XLA_BINARY = {
    "add": lax.add,
    "subtract": lax.sub,
    "multiply": lax.mul,
    "divide": lax.div,
    "remainder": lax.rem,
    "maximum": lax.max,
    "minimum": lax.min,
    "eq": lax.eq,
    "ne": lax.ne,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
    "bitwise_and": lax.bitwise_and,
    "bitwise_or": lax.bitwise_or,
    "bitwise_xor": lax.bitwise_xor,
    "logical_left_shift": lax.shift_left,
    "logical_right_shift": lax.shift_right_logical,
    "right_shift": lax.shift_right_arithmetic,
    "pow_tensor": lax.pow,
}


@pytest.mark.crossed
@pytest.mark.parametrize(
    "dtype",
    # quick: [uint16] and [int32] have signs, none, and both widths
    [*("uint16", "int32"), *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("int8", "uint32"))],
)
@pytest.mark.parametrize("name", sorted(set(XLA_BINARY) - {"pow_tensor"}))
def test_integers_are_exact_and_wrap(name: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    a = RANDOM.integers(info.min, info.max, 300, dtype=dtype, endpoint=True)
    b = RANDOM.integers(info.min, info.max, 300, dtype=dtype, endpoint=True)
    edges = np.array([info.min, info.max, 0, 1, info.max], dtype)
    a, b = (
        np.concatenate([a, edges]),
        np.concatenate([b, np.array([-1 % 256 if info.min == 0 else -1, 1, 3, 5, 0], dtype)]),
    )
    if "shift" in name:
        b[:250] = RANDOM.integers(0, info.bits + 3, 250).astype(dtype)
    want = xla(XLA_BINARY[name], a, b)
    element = {"int": "i", "uin": "ui"}[dtype[:3]] + str(info.bits)
    assert_array_equal(run_kernel(name, NONE, [a, b], a.shape, "i1" if want.dtype == bool else element), want)


def test_integer_functions() -> None:
    x = np.array([0, 1, 2, 255, -1, -128, 2**30, -(2**31)], np.int32)
    assert_array_equal(run_kernel("popcnt", NONE, [x], x.shape, "i32"), np.asarray(lax.population_count(x)))
    assert_array_equal(run_kernel("count_leading_zeros", NONE, [x], x.shape, "i32"), np.asarray(lax.clz(x)))
    wide = np.array([2**31 - 1, -(2**31), -(2**31), 65_537, -7], np.int32)
    other = np.array([2**31 - 1, -(2**31), 2**31 - 1, 65_537, 3], np.int32)
    assert_array_equal(run_kernel("mulhi", NONE, [wide, other], (5,), "i32"), np.asarray(lax.mulhi(wide, other)))
    wide, other = wide.view(np.uint32), other.view(np.uint32)
    assert_array_equal(run_kernel("mulhi", NONE, [wide, other], (5,), "ui32"), np.asarray(lax.mulhi(wide, other)))
    small = x.astype(np.int8)
    assert_array_equal(run_kernel("count_leading_zeros", NONE, [small], x.shape, "i8"), np.asarray(lax.clz(small)))
    assert_array_equal(run_kernel("bitwise_not", NONE, [x], x.shape, "i32"), ~x)
    assert_array_equal(run_kernel("bitwise_not", NONE, [x > 0], x.shape, "i1"), x <= 0)
    power = run_kernel("pow_tensor", NONE, [x[:5], np.array([3, -1, 5, 4, -3], np.int32)], (5,), "i32")
    assert power.tolist() == [0, 1, 32, (255**4 + 2**31) % 2**32 - 2**31, -1]


@pytest.mark.parametrize("name", ["add", "subtract", "divide", "remainder", "maximum", "lt", "ge", "pow_tensor"])
def test_binary_floats_equal_numpy(name: str) -> None:
    a, b = RANDOM.uniform(0.1, 9, (2, 1000)).astype(np.float32)
    want = xla(XLA_BINARY[name], a, b)
    got = run_kernel(name, NONE, [a, b], a.shape, "i1" if want.dtype == bool else "f32")
    if want.dtype == bool:
        assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=4 * 2**-23)


def test_operands_broadcast() -> None:
    a, b = RANDOM.standard_normal((4, 1, 3)).astype(np.float32), RANDOM.standard_normal((2, 1)).astype(np.float32)
    assert_array_equal(run_kernel("add", NONE, [a, b], (4, 2, 3), "f32"), a + b)


def test_bfloat16_rounds_once_at_the_packer() -> None:
    """Packers/FormatConversion.md: nearest, ties away from zero."""
    a, b = RANDOM.standard_normal((2, 5000)).astype(ml_dtypes.bfloat16)
    got = run_kernel("add", NONE, [a, b], a.shape, "bf16").astype(np.float32)
    true = a.astype(np.float32) + b.astype(np.float32)
    assert np.abs(got - true).max() <= np.abs(true).max() * 2**-8
    even = true.astype(ml_dtypes.bfloat16).astype(np.float32)
    other = got != even
    assert 0 < other.mean() < 0.2
    assert_array_equal(np.abs(true - got)[other], np.abs(true - even)[other], "only ties go elsewhere")


def test_multiplication_reads_mantissas_by_fidelity() -> None:
    """ELWMUL.md, SrcASrcB.md: the first phase reads 4 bits of SrcA's mantissa and 6 of SrcB's."""
    left, right = (np.array([value], np.float16) for value in (1 + 2**-4 + 2**-7, 1 + 2**-6 + 2**-7))
    whole, high, other_high = 1 + 2**-4 + 2**-7, 1 + 2**-4, 1 + 2**-6
    phases = [high * other_high, (whole - high) * other_high, high * 2**-7, (whole - high) * 2**-7]
    for number, fidelity in enumerate(("LoFi", "HiFi2", "HiFi3", "HiFi4"), start=1):
        product = run_kernel("multiply", NONE, [left, right], (1,), "f32", Numerics(fidelity))
        assert product.tolist() == [sum(phases[:number])]
    a, b = RANDOM.standard_normal((2, 4000)).astype(np.float16)
    true = a.astype(np.float32) * b.astype(np.float32)
    errors = [
        float(np.linalg.norm(run_kernel("multiply", NONE, [a, b], a.shape, "f16", Numerics(f)).astype(float) - true))
        for f in ("LoFi", "HiFi2", "HiFi3", "HiFi4")
    ]
    assert errors[0] > errors[1] > errors[2] * 1.2
    assert errors[2] >= errors[3] > 0


@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi4"])
def test_bfloat16_is_multiplied_on_the_vector_unit(fidelity: str) -> None:
    """Rounded to the nearest even, whatever the fidelity; Inf and NaN are IEEE's, but +0 times either is 0."""
    numerics, nan = Numerics(fidelity, "Float16_b"), np.nan
    pairs = [
        (1.75, 0.859375, 1.5),
        (np.inf, -2.0, -np.inf),
        (-0.0, np.inf, np.inf),
        (0.0, np.inf, 0),
        (nan, -1, np.inf),
    ]
    left, right = (np.array(side, ml_dtypes.bfloat16) for side in list(zip(*pairs, strict=True))[:2])
    got = run_kernel("multiply", NONE, [left, right], left.shape, "bf16", numerics, device=Device("p150"))
    assert got.astype(float).tolist() == [want for _, _, want in pairs]
    a, b = RANDOM.standard_normal((2, 4000)).astype(ml_dtypes.bfloat16)
    assert_array_equal(run_kernel("multiply", NONE, [a, b], a.shape, "bf16", numerics), a * b)


def test_what_no_number_comes_of_is_positive_infinity_in_bfloat16() -> None:
    """The vector unit's NaN is positive and becomes Inf in the packer; an x86's default NaN is negative."""
    numerics = Numerics(dst_format="Float16_b")
    for name, value in (("sqrt", -1), ("rsqrt", -1), ("log", -1), ("log1p", -2), ("asin", 2), ("acos", 2)):
        x = np.array([value], ml_dtypes.bfloat16)
        assert run_kernel(name, NONE, [x], (1,), "bf16", numerics).tolist() == [np.inf], name


@pytest.mark.parametrize(("a", "b", "larger", "smaller"), [(np.nan, -1.0, np.inf, -1.0), (-0.0, 0.0, 0.0, 0.0)])
def test_nan_is_the_largest_number_in_exact_order(a: float, b: float, larger: float, smaller: float) -> None:
    left, right = (np.array([value], ml_dtypes.bfloat16) for value in (a, b))
    device = Device("p150", exact_order=True)
    for name, want in (("maximum", larger), ("minimum", smaller)):
        for pair in ([left, right], [right, left]):
            got = run_kernel(name, NONE, pair, (1,), "bf16", Numerics(dst_format="Float16_b"), device=device)
            assert got.tolist() == [want], name


def test_sums_align_the_smaller_number_in_exact_order() -> None:
    """A recorded sum: the smaller operand is rounded to 10 bits below the larger one's first."""
    device, numerics = Device("p150", exact_order=True), Numerics(dst_format="Float16_b")
    left, right = (np.array([value], ml_dtypes.bfloat16) for value in (0.734375, -0.0060424805))
    assert run_kernel("add", NONE, [left, right], (1,), "bf16", numerics, device=device).tolist() == [0.73046875]
    assert run_kernel("add", NONE, [left, right], (1,), "bf16", numerics).tolist() == [0.7265625]


def test_ternary() -> None:
    x = RANDOM.standard_normal(100).astype(np.float32)
    assert_array_equal(run_kernel("where", NONE, [x > 0, x, -x], x.shape, "f32"), np.abs(x))
    low, high = np.float32(-0.5), np.float32(0.25)
    want = np.clip(x, low, high)
    assert_array_equal(run_kernel("clamp_scalar", EltwiseParams((-0.5, 0.25)), [x], x.shape, "f32"), want)
    tensors = [x, np.full_like(x, low), np.full_like(x, high)]
    assert_array_equal(run_kernel("clamp_tensor", NONE, tensors, x.shape, "f32"), want)


def test_booleans_add_as_or() -> None:
    a, b = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], bool)
    assert run_kernel("add", NONE, [a, b], (4,), "i1").tolist() == [False, True, True, True]
    assert run_kernel("multiply", NONE, [a, b], (4,), "i1").tolist() == [False, False, False, True]


def test_denormals_flush() -> None:
    """SFPMAD.md, WormholeB0: denormals of operands are zeros."""
    x = np.float32([1e-40, -1e-40, 1.0])
    assert run_kernel("multiply", NONE, [x, np.float32([1e20] * 3)], (3,), "f32").tolist() == [0, 0, np.float32(1e20)]


def test_a_type_that_a_kernel_has_not_is_refused() -> None:
    with pytest.raises(KernelError, match="bitwise_and: expected operands of a type it has, got floats"):
        run_kernel("bitwise_and", NONE, [np.float32([1])] * 2, (1,), "f32")
    with pytest.raises(UnsupportedKernel, match="expected add of 2 to 2 inputs"):
        run_kernel("add", NONE, [np.float32([1])], (1,), "f32")


@pytest.mark.parametrize(
    ("kernel", "operands", "expected"),
    [
        ("count_leading_zeros", (5,), 29),
        ("logical_left_shift", (5, 2), 20),
        ("logical_right_shift", (-1, 28), 15),
        ("right_shift", (-8, 1), -4),
        ("right_shift", (-8, 32), -1),
        ("bitwise_right_shift", (-8, 31), -1),
        ("bitwise_right_shift", (-8, 32), 0),
        ("bitwise_right_shift", (-8, -1), 0),
    ],
)
def test_bits_of_a_scalar_are_a_scalar(kernel: str, operands: tuple[int, ...], expected: int) -> None:
    got = run_kernel(kernel, NONE, [np.array(value, np.int32) for value in operands], (), "i32")
    assert got.shape == ()
    assert got == expected


def test_every_row_is_a_kernel() -> None:
    assert {row[0] for row in (*UNARY, *BINARY)} <= set(KERNELS)
