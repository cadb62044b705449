"""Goldens of elementwise formulas against mpmath at 100 digits: at most 0.501 units in the last place off: they are the
nearest number, or the other of two that are as near."""

from __future__ import annotations

import math

import ml_dtypes
import mpmath as mp
import numpy as np
import pytest

from opscope.harness.formulas.elementwise import CHOICES
from opscope.harness.formulas.elementwise import FORMULAS as ELEMENTWISE
from opscope.harness.formulas.nearest import last_place, rounded
from opscope.harness.formulas.pointwise import POINTWISE, SELU_ALPHA, SELU_SCALE

TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
DIGITS = 100
SAMPLE = 60
"""Inputs of each function in the quick test; the slow one has all of them."""
half, one = mp.mpf("0.5"), mp.mpf(1)


def sigma(x):
    return 1 / (1 + mp.exp(-x)) if x > -1e5 else mp.exp(x)


def gelu(x):
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def silu(x):
    return x * sigma(x)


def softplus(x):
    return mp.log1p(mp.exp(x)) if x < 1e4 else x


def mish(x):
    e = mp.exp(x) if x < 200 else None
    return x if e is None else x * (e * (e + 2)) / (e * (e + 2) + 2)


def tanh(x):
    e = mp.expm1(-2 * abs(x)) if abs(x) < 1e4 else -one
    return mp.sign(x) * -e / (2 + e)


def tanhshrink(x):
    if abs(x) > 1e-3:
        return x - tanh(x)
    return x**3 / 3 - 2 * x**5 / 15 + 17 * x**7 / 315 - 62 * x**9 / 2835


def cubed(x):
    return mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)


def phi(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def gelu_tanh_bw(x):
    if abs(x) > 100:
        return one if x > 0 else mp.mpf(0)
    slope = 2 * mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * x * x)
    return sigma(2 * cubed(x)) * (1 + x * slope * sigma(-2 * cubed(x)))


def silu_bw(x):
    return sigma(x) * (1 + x * sigma(-x)) if abs(x) < 1e4 else mp.mpf(x > 0)


def cosh_squared(x):
    return 4 * mp.exp(-2 * abs(x)) / (1 + mp.exp(-2 * abs(x))) ** 2


def elu(x, alpha=one):
    return x if x > 0 else alpha * mp.expm1(x)


def real(of):
    """NaN where the function is not real."""

    def called(*x):
        try:
            y = of(*x)
        except (ZeroDivisionError, ValueError):
            return None
        return None if isinstance(y, mp.mpc) else y

    return called


def clip(x, low, high):
    return min(max(x, low), high)


def rint(x):
    low = mp.floor(x)
    return low if x - low < half or (x - low == half and low % 2 == 0) else low + 1


def afz(x):
    return mp.sign(x) * mp.floor(abs(x) + half)


def trunc(x):
    return mp.sign(x) * mp.floor(abs(x))


def trigamma(x):
    if x <= 0 and x == mp.floor(x):
        raise ZeroDivisionError
    if x < 0:
        return (mp.pi / mp.sin(mp.pi * x)) ** 2 - trigamma(1 - x)
    if x < 30:
        return trigamma(x + 1) + 1 / (x * x)
    return 1 / x + 1 / (2 * x * x) + sum(mp.bernoulli(2 * k) / x ** (2 * k + 1) for k in range(1, 20))


ONE = {
    "stablehlo.abs": abs, "stablehlo.cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "stablehlo.ceil": mp.ceil,
    "stablehlo.cosine": mp.cos, "stablehlo.exponential": mp.exp, "stablehlo.exponential_minus_one": mp.expm1,
    "stablehlo.floor": mp.floor, "stablehlo.log": mp.log, "stablehlo.log_plus_one": mp.log1p,
    "stablehlo.logistic": sigma, "stablehlo.negate": lambda x: -x, "stablehlo.rsqrt": lambda x: 1 / mp.sqrt(x),
    "stablehlo.sine": mp.sin, "stablehlo.sqrt": mp.sqrt, "stablehlo.tan": mp.tan, "stablehlo.tanh": tanh,
    "stablehlo.round_nearest_even": rint, "stablehlo.round_nearest_afz": afz, "stablehlo.sign": mp.sign,
    "chlo.acos": mp.acos, "chlo.acosh": mp.acosh, "chlo.asin": mp.asin, "chlo.asinh": mp.asinh, "chlo.atan": mp.atan,
    "chlo.atanh": mp.atanh, "chlo.cosh": mp.cosh, "chlo.erf": mp.erf, "chlo.erfc": mp.erfc, "chlo.sinh": mp.sinh,
    "chlo.square": lambda x: x * x, "chlo.tan": mp.tan, "chlo.erf_inv": mp.erfinv,
    "chlo.bessel_i1e": lambda x: mp.besseli(1, x) * mp.exp(-abs(x)) if abs(x) < 200 else bessel(1, x, True),
    "chlo.lgamma": lambda x: mp.loggamma(x).real, "chlo.digamma": mp.digamma,
    "gelu": gelu, "gelu_tanh": lambda x: x * sigma(2 * cubed(x)), "silu": silu, "softplus": softplus, "mish": mish,
    "tanhshrink": tanhshrink, "logit": lambda x: mp.log(x) - mp.log1p(-x), "log_sigmoid": lambda x: -softplus(-x),
    "hardswish": lambda x: x * clip(x + 3, 0, 6) / 6, "hardsigmoid": lambda x: clip(x + 3, 0, 6) / mp.mpf(6),
    "hardmish": lambda x: x * clip(x + 2, 0, 2) / 2, "hardtanh": lambda x: clip(x, -1, 1),
    "hardshrink": lambda x: mp.mpf(0) if abs(x) <= half else x,
    "softshrink": lambda x: mp.sign(x) * max(abs(x) - half, 0), "relu": lambda x: max(x, 0),
    "relu6": lambda x: clip(x, 0, 6), "relu_squared": lambda x: max(x, 0) ** 2,
    "leaky_relu": lambda x: x if x > 0 else x * mp.mpf(0.01), "threshold": lambda x: max(x, 0),
    "elu": elu, "celu": elu, "selu": lambda x: mp.mpf(SELU_SCALE) * elu(x, mp.mpf(SELU_ALPHA)),
    "softsign": lambda x: x / (1 + abs(x)), "softcap": lambda x: 50 * tanh(x / 50), "sigmoid": sigma,
    "gelu_bw": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2 + x * phi(x), "gelu_tanh_bw": gelu_tanh_bw, "silu_bw": silu_bw,
    "sigmoid_bw": lambda x: sigma(x) * sigma(-x), "tanh_bw": cosh_squared, "tanhshrink_bw": lambda x: tanh(x) ** 2,
    "log_sigmoid_bw": lambda x: sigma(-x), "softsign_bw": lambda x: 1 / (1 + abs(x)) ** 2,
    "elu_bw": lambda x: one if x > 0 else mp.exp(x),
    "hardswish_bw": lambda x: mp.mpf(0) if x <= -3 else one if x >= 3 else x / 3 + half,
    "erf_bw": lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), "atan_bw": lambda x: 1 / (1 + x * x),
    "asin_bw": lambda x: 1 / mp.sqrt(1 - x * x), "asinh_bw": lambda x: 1 / mp.sqrt(1 + x * x),
    "acosh_bw": lambda x: 1 / (mp.sqrt(x - 1) * mp.sqrt(x + 1)) if x > 1 else mp.mpc(0, 1),
    "atanh_bw": lambda x: 1 / (1 - x * x),
    "tan_bw": lambda x: 1 / mp.cos(x) ** 2, "sqrt_bw": lambda x: half / mp.sqrt(x),
    "rsqrt_bw": lambda x: -half / (x * mp.sqrt(x)), "reciprocal_bw": lambda x: -1 / (x * x),
    "exp2": lambda x: mp.power(2, x), "log2": lambda x: mp.log(x, 2), "log10": mp.log10,
    "reciprocal": lambda x: 1 / x, "rpow": lambda x: mp.power(3, x), "deg2rad": lambda x: x * mp.pi / 180,
    "rad2deg": lambda x: x * 180 / mp.pi, "trunc": trunc, "frac": lambda x: x - trunc(x), "erf": mp.erf,
    "erfinv": mp.erfinv, "normal_cdf": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "entropy": lambda x: -x * mp.log(x) if x else mp.mpf(0), "lgamma": lambda x: mp.loggamma(x).real,
    "digamma": mp.digamma, "trigamma": trigamma,
    "i0": lambda x: bessel(0, x), "i1": lambda x: bessel(1, x),
    "eqz": lambda x: mp.mpf(x == 0), "nez": lambda x: mp.mpf(x != 0), "gtz": lambda x: mp.mpf(x > 0),
    "gez": lambda x: mp.mpf(x >= 0), "ltz": lambda x: mp.mpf(x < 0), "lez": lambda x: mp.mpf(x <= 0),
    "isnan": lambda x: mp.mpf(0), "isinf": lambda x: mp.mpf(0),
    "isposinf": lambda x: mp.mpf(0), "isneginf": lambda x: mp.mpf(0),
    "isfinite": lambda x: one,
    "relu_min": lambda x: max(x, half), "relu_max": lambda x: clip(x, 0, 3), "softplus_bw": sigma,
    "selu_bw": lambda x: mp.mpf(SELU_SCALE) * (one if x > 0 else mp.mpf(SELU_ALPHA) * mp.exp(x)),
    "celu_bw": lambda x: one if x > 0 else mp.exp(x), "leaky_relu_bw": lambda x: one if x > 0 else mp.mpf(0.01),
    "relu6_bw": lambda x: mp.mpf(0 < x < 6), "hardtanh_bw": lambda x: mp.mpf(-1 < x < 1),
    "hardshrink_bw": lambda x: mp.mpf(abs(x) > half), "hardsigmoid_bw": lambda x: mp.mpf(abs(x) < 3) / 6,
    "logit_bw": lambda x: 1 / (x * (1 - x)), "square_bw": lambda x: 2 * x, "log1p_bw": lambda x: 1 / (1 + x),
    "log2_bw": lambda x: 1 / (x * mp.log(2)), "log10_bw": lambda x: 1 / (x * mp.log(10)),
    "exp2_bw": lambda x: mp.power(2, x) * mp.log(2), "cos_bw": lambda x: -mp.sin(x),
    "acos_bw": lambda x: -1 / mp.sqrt(1 - x * x), "erfc_bw": lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x),
    "erfinv_bw": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2), "rdiv": lambda x: 3 / x,
    "heaviside": lambda x: mp.mpf(x > 0) if x else half, "logical_not": lambda x: mp.mpf(x == 0),
}  # fmt: skip
"""Function of one operand -> the same by mpmath."""


def bessel(order, x, scaled=False):
    if abs(x) >= 200:  # mpmath's own takes seconds there
        size, term, total = abs(x), one, one
        for k in range(1, 25):
            term = term * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * size)
            total += term
        value = total / mp.sqrt(2 * mp.pi * size) * (one if scaled else mp.exp(size))
        return value * (mp.sign(x) if order else 1)
    return mp.besseli(order, x)


def floored(x, y):
    return mp.floor(x / y)


def xlogy(x, y):
    return x * mp.log(y) if x else mp.mpf(0)


def logaddexp(x, y, base=mp.e):
    high, low = max(x, y), min(x, y)
    return high + mp.log1p(mp.power(base, low - high)) / mp.log(base)


TWO = {
    "stablehlo.add": lambda x, y: x + y, "stablehlo.atan2": mp.atan2, "stablehlo.divide": lambda x, y: x / y,
    "stablehlo.maximum": max, "stablehlo.minimum": min, "stablehlo.multiply": lambda x, y: x * y,
    "stablehlo.power": lambda x, y: mp.power(x, y), "stablehlo.subtract": lambda x, y: x - y,
    "stablehlo.remainder": lambda x, y: x - y * trunc(x / y),
    "glu": lambda x, y: x * sigma(y), "geglu": lambda x, y: x * gelu(y), "reglu": lambda x, y: x * max(y, 0),
    "swiglu": lambda x, y: silu(x) * y, "bias_gelu": lambda x, y: gelu(x + y),
    "prelu": lambda x, y: x if x > 0 else x * y, "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "logaddexp": logaddexp, "logaddexp2": lambda x, y: logaddexp(x, y, mp.mpf(2)), "xlogy": xlogy,
    "xlog1py": lambda x, y: x * mp.log1p(y) if x else mp.mpf(0), "floor_divide": floored,
    "mod": lambda x, y: x - y * floored(x, y), "squared_difference": lambda x, y: (x - y) ** 2,
    "div_trunc": lambda x, y: trunc(x / y), "rsub": lambda x, y: y - x, "subalpha": lambda x, y: x - 2 * y,
    "ldexp": lambda x, y: x * mp.power(2, y), "div_no_nan": lambda x, y: x / y if y else mp.mpf(0),
    "fdim": lambda x, y: max(x - y, 0), "addalpha": lambda x, y: x + 2 * y,
    "eq": lambda x, y: mp.mpf(x == y), "ne": lambda x, y: mp.mpf(x != y), "lt": lambda x, y: mp.mpf(x < y),
    "le": lambda x, y: mp.mpf(x <= y), "gt": lambda x, y: mp.mpf(x > y), "ge": lambda x, y: mp.mpf(x >= y),
    "logical_and": lambda x, y: mp.mpf(bool(x) and bool(y)), "logical_or": lambda x, y: mp.mpf(bool(x) or bool(y)),
    "logical_xor": lambda x, y: mp.mpf(bool(x) != bool(y)),
}  # fmt: skip
THREE = {
    "stablehlo.clamp": lambda low, x, high: min(max(x, low), high), "stablehlo.select": lambda p, x, y: x if p else y,
    "lerp": lambda x, y, w: x + w * (y - x), "addcmul": lambda x, y, z: x + y * z,
    "addcdiv": lambda x, y, z: x + y / z, "mac": lambda x, y, z: x * y + z,
}  # fmt: skip
BY_MPMATH = {**ONE, **TWO, **THREE}


def numpy_of(name):
    if name in POINTWISE:
        formula = POINTWISE[name]
        return lambda *x: formula.exact(*x, **formula.attributes)
    return ELEMENTWISE.get(name) or CHOICES[name]


def numbers(kind, count=0):
    """All finite values of a type, or some of all exponents and both ends."""
    values = np.arange(65536, dtype=np.uint16).view(TYPES[kind])
    finite = values[np.isfinite(values.astype(np.float32))].astype(np.float64)
    if not count:
        return finite
    rng = np.random.default_rng(0)
    near = rng.standard_normal(count // 2) * 2.0 ** rng.integers(-6, 5, count // 2)
    chosen = [
        *rng.choice(finite, count // 2, replace=False),
        *near,
        1,
        -1,
        0.5,
        2,
        3,
        -3,
        0,
        finite.max(),
        finite.min(),
    ]
    return np.array(chosen).astype(TYPES[kind]).astype(np.float64)


def farthest(name, kind, *operands):
    """The largest error of the rounded formula in ULP, where mpmath has a real finite value; and at which operands."""
    with np.errstate(all="ignore"):
        got = np.asarray(numpy_of(name)(*operands)).astype(np.float64)
    near = rounded(got, TYPES[kind]).astype(np.float64)
    of, worst = real(BY_MPMATH[name]), (0.0, ())
    largest = float(ml_dtypes.finfo(TYPES[kind]).max)
    with mp.workdps(DIGITS):
        for place, each in enumerate(zip(*(x.tolist() for x in operands), strict=True)):
            right = of(*map(mp.mpf, each))
            if right is None or mp.isnan(right) or mp.isinf(right):
                assert not math.isfinite(near[place]) or name in ("stablehlo.power", "xlog1py"), (
                    name,
                    each,
                    near[place],
                )
                continue
            unit = float(last_place(np.array([min(abs(float(right)), largest)]), TYPES[kind])[0])
            if abs(right) > largest:
                assert abs(near[place]) >= largest, (name, each)
                continue
            off = float(abs(mp.mpf(near[place]) - right) / unit) if math.isfinite(near[place]) else math.inf
            if math.isinf(near[place]):
                off = float((largest + unit - abs(right)) / unit)  # what rounds to infinity
            if off > worst[0]:
                worst = off, each
    return worst


def operands_of(name, kind, count):
    if name in ONE:
        return (numbers(kind, count),)
    rng = np.random.default_rng(1)
    values = numbers(kind, count or 8192)
    # Half of the operands lie near each other's size, so that results are not all of one operand alone.
    scale = rng.choice(numbers(kind, 64)[np.abs(numbers(kind, 64)) < 64], values.size)
    with np.errstate(over="ignore"):
        near = (values * rng.uniform(-2, 2, values.size)).astype(TYPES[kind]).astype(np.float64)
    second = np.where(rng.random(values.size) < 0.5, np.where(np.isfinite(near), near, 1.0), scale)
    if name == "stablehlo.atan2":  # mpmath has no negative zero
        return np.where(values == 0, 1.0, values), np.where(second == 0, 1.0, second)
    if name in TWO:
        return values, second
    third = rng.permutation(second)
    if name == "stablehlo.clamp":
        return np.minimum(values, third), second, np.maximum(values, third)
    return (values > 0, second, third) if name == "stablehlo.select" else (values, second, third)


@pytest.mark.crossed
@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(BY_MPMATH))
def test_a_golden_is_the_nearest_number(name, kind):
    off, at = farthest(name, kind, *operands_of(name, kind, SAMPLE))
    assert off <= 0.501, f"{off:.4f} ulp at {at}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(TYPES))
@pytest.mark.parametrize("name", sorted(BY_MPMATH))
def test_every_golden_is_the_nearest_number(name, kind):
    off, at = farthest(name, kind, *operands_of(name, kind, 0))
    assert off <= 0.501, f"{off:.4f} ulp at {at}"


def test_every_elementwise_formula_is_held_to_mpmath():
    assert {*POINTWISE, *ELEMENTWISE, *CHOICES} == {*BY_MPMATH}
