"""ttnn's own functions: their rules near the true values, their ends, and bits that recorded runs have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opscope.compiler.target.program import EltwiseParams, Numerics
from opscope.compiler.target.rounding import to_mantissa
from opscope.simulator.api import Device
from opscope.simulator.kernels import special
from opscope.simulator.kernels.eltwise import REAL
from opscope.simulator.kernels.real.vector_unit import SEED, multiply_add, reciprocal_seed
from opscope.simulator.tests.programs import run_kernel

WIDE, NARROW = Numerics(dst_format="Float32"), Numerics(dst_format="Float16_b")
TRUE = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "reciprocal": lambda x: 1 / x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "gelu": lambda x: x * np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: special.gelu_tanh(x.astype(np.float32)).astype(np.float64),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
WITHIN = {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1.01, 9), "log1p": (-0.9, 9)}
"""Where a function is looked at, if not from -9 to 9 or, of what needs a number above 0, from 0.01 to 9."""
ABOVE_ZERO = ("log", "log2", "sqrt", "rsqrt", "reciprocal")
APART = {
    ("erfc", True): 2e-2,
    ("gelu", True): 1e-6,
    ("gelu_tanh", True): 1e-6,
    ("gelu", False): 2e-7,
    ("tan", True): 1e-4,
    ("tan", False): 0.1,
}
"""Absolute errors that are larger than four units in the last place of the format."""


@pytest.mark.parametrize("wide", [True, False], ids=["float32", "bfloat16"])
def test_each_function_is_near_the_true_one(wide: bool) -> None:
    for name, function in TRUE.items():
        low, high = WITHIN.get(name, (0.01, 9) if name in ABOVE_ZERO else (-9, 9))
        x = np.linspace(low, high, 5001).astype(np.float32)
        x = x if wide else to_mantissa(x, 7, "truncate")
        with np.errstate(all="ignore"):
            true, got = function(x.astype(np.float64)), REAL[name](x, wide=wide).astype(np.float64)
        unit = 2.0**-23 if wide else 2.0**-8
        bound = 8 * unit * np.maximum(np.abs(true), 2.0**-6) + APART.get((name, wide), 0)
        assert (np.abs(got - true) <= bound).all(), (name, x[np.argmax(np.abs(got - true) - bound)])


EXACT = Device("p150", exact_order=True)
RECORDED: tuple[tuple[str, tuple[float, ...], float], ...] = (
    ("exp", (1.0,), 2.71828175),
    ("log", (1.0078125,), 0.00778214028),
    ("divide", (2.0**-126, 0.99609375), 1.18010406e-38),
    ("erfc", (0.0,), 0.996116996),
    ("multiply", (-(2.0**-126), 2.0**-23), 0.0),
)


@pytest.mark.parametrize(("name", "operands", "bits"), RECORDED, ids=[row[0] for row in RECORDED])
def test_recorded_results_have_other_bits_than_the_hosts(name: str, operands: tuple[float, ...], bits: float) -> None:
    arrays = [np.full((1, 1), operand, np.float32) for operand in operands]
    exact, fast = (
        run_kernel(name, EltwiseParams(), arrays, (1, 1), "f32", WIDE, device=Device("p150", exact_order=order))
        for order in (True, False)
    )
    assert exact.tobytes() == np.float32(bits).tobytes()
    assert fast.tobytes() != exact.tobytes()


def test_of_nan_they_make_what_the_instructions_leave_of_it() -> None:
    """Recorded runs: sigmoid and reciprocal have 0 of it, relu6 6, sign and erf 1."""
    nan = np.full((1, 1), np.nan, np.float32)
    made = {
        name: float(run_kernel(name, EltwiseParams(), [nan], (1, 1), "f32", WIDE, device=EXACT)[0, 0])
        for name in ("sigmoid", "reciprocal", "relu6", "sign", "erf")
    }
    assert made == {"sigmoid": 0, "reciprocal": 0, "relu6": 6, "sign": 1, "erf": 1}


def test_denormals_are_seen_where_no_number_is_added() -> None:
    """Recorded runs: a root of -2^-149 is no number, a denormal's sign is its own, ceil goes up to 1."""
    x = np.array([[1, 0x80000001]], np.uint32).view(np.float32)
    ceil, floor, sign = (
        run_kernel(name, EltwiseParams(), [x], (1, 2), "f32", WIDE, device=EXACT)[0].tolist()
        for name in ("ceil", "floor", "sign")
    )
    assert (ceil, floor, sign) == ([1, 0], [0, -1], [1, -1])
    assert np.isnan(run_kernel("sqrt", EltwiseParams(), [x], (1, 2), "f32", WIDE, device=EXACT)[0, 1])


def test_an_angle_loses_its_digits_and_then_its_size() -> None:
    x = np.array([[1e4, 1e8, 1e14]], np.float32)
    got = run_kernel("sin", EltwiseParams(), [x], (1, 3), "f32", WIDE, device=EXACT)[0].astype(np.float64)
    true = np.sin(x[0].astype(np.float64))
    assert abs(got[0] - true[0]) < 1e-6
    assert abs(got[1] - true[1]) > 0.01
    assert not abs(got[2]) <= 1


def test_gelu_ends_at_its_last_number() -> None:
    x = np.array([[-5.54, -5.55, -1e9]], np.float32)
    for numerics in (WIDE, NARROW):
        got = run_kernel("gelu", EltwiseParams(), [x], (1, 3), "f32", numerics, device=EXACT)[0]
        assert got[0] < 0
        assert got[1:].tolist() == [0, 0]


def test_the_seed_of_a_reciprocal_is_that_of_the_middle_of_its_interval() -> None:
    """SFPARECIP.md: 7 bits; Inf of 0, 0 from 2^126 on."""
    assert SEED[[0, 1, 64, 127]].tolist() == [127, 125, 42, 0]
    x = np.float32([1, 1.5, 0, -1e-39, 2.0**126, np.inf])
    got = reciprocal_seed(x)
    assert got[:2].tolist() == [0.99609375, 0.6640625]
    assert got[2:].tolist() == [np.inf, -np.inf, 0, 0]


def test_a_product_is_cut_before_it_is_added() -> None:
    """SFPMAD.md of BlackholeA0: 3 bits below the last one, and whether there was more."""
    a = np.float32(1 + 2.0**-23)
    assert float(multiply_add(a, a, -a)) == 2.0**-23 + 2.0**-26, "2^-46 of it is there as one bit"
    assert float(multiply_add(a, a, -np.float32(1 + 2.0**-22))) == 2.0**-26


def test_without_exact_order_they_are_the_hosts() -> None:
    x = np.linspace(-4, 4, 1024, dtype=np.float32).reshape(1, -1)
    exact, fast = (
        run_kernel("exp", EltwiseParams(), [x], x.shape, "f32", WIDE, device=Device("p150", exact_order=order))
        for order in (True, False)
    )
    assert np.array_equal(fast, np.exp(x))
    assert not np.array_equal(exact, fast)


@pytest.mark.parametrize("name", ["pow_tensor", "multiply", "divide", "atan2", "add", "subtract", "maximum"])
def test_scalars_stay_scalars(name: str) -> None:
    operands = [np.full((), operand, np.float32) for operand in (2.0, 3.0)]
    got = run_kernel(name, EltwiseParams(), operands, (), "f32", WIDE, device=EXACT)
    assert np.shape(got) == ()
