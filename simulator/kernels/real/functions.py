"""The functions of ttnn's own kernels on Blackhole: exponentials, logarithms, roots, quotients and the error function.

Each is computed in the kernel's own steps, by the rules and constants of the files of tt-metal (ttnn 0.81.1,
tt_metal/hw/ckernels/blackhole/metal/llk_api/llk_sfpu) that it names. `wide` says whether Dst has 32 bits: kernels take
shorter series where it has 16. The results are float32; a narrow Dst rounds them to bfloat16, halves away from 0.
`opscope.simulator.kernels.real.trigonometry` has the rest.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.rounding import Image, bits, to_mantissa
from opscope.simulator.kernels.real.vector_unit import (
    above,
    exponent_field,
    from_bits,
    integer_bits,
    is_negative,
    larger,
    multiply,
    multiply_add,
    polynomial,
    reciprocal_seed,
    series,
    size,
    smaller,
    subtract,
    to_integer,
    with_exponent,
)

ONE, HALF, TWO, INF, NAN = (np.float32(x) for x in (1, 0.5, 2, np.inf, np.nan))
INF_BITS, FRACTION = 0x7F800000, 0x7FFFFF


def reciprocal_by_newton(x: Image, steps: int) -> Image:
    """1 / x by Newton's steps from the approximate one, none where that is 0 or Inf (ckernel_sfpu_recip.h)."""
    y = reciprocal_seed(x)
    t = multiply_add(x, y, -TWO)
    better = multiply_add(y, -t, -0.0)
    if steps > 1:
        better = multiply_add(better, -multiply_add(x, better, -TWO), -0.0)
    return np.where(is_negative(t), better, y)


def reciprocal(x: Image, *, wide: bool) -> Image:
    """1 / x (ckernel_sfpu_recip.h)."""
    y = reciprocal_seed(x)
    if wide:
        e = multiply_add(-x, y, ONE)
        t = smaller(multiply_add(multiply_add(e, e, e), e, e), ONE)
        return multiply_add(t, y, y)
    # One step on the last of bfloat16's bits, as an integer; the store cuts what is below.
    y = from_bits(bits(y).astype(np.int64) | 0x8000)
    e = multiply_add(multiply_add(x, ONE), y, -ONE)
    return from_bits(integer_bits(y).astype(np.int64) + (bits(e) >> 16) & 0xFFFF0000)


def divide(a: Image, b: Image, *, wide: bool) -> Image:
    """a / b (ckernel_sfpu_binary.h)."""
    if not wide:
        result = multiply(a, reciprocal_by_newton(b, 2))
        at_zero = np.where(a == 0, NAN, np.copysign(INF, a))
        return to_mantissa(np.where(b == 0, at_zero, result), 7, "even")
    one = np.full(np.shape(a), 127, np.int64)
    top, bottom = with_exponent(a, one), with_exponent(b, one)
    y = reciprocal_seed(bottom)
    r = multiply_add(y, -multiply_add(bottom, y, -TWO), -0.0)
    q = multiply(top, r)
    q = multiply_add(multiply_add(-q, bottom, top), r, q)
    of_a, of_b = exponent_field(a), exponent_field(b) - 127
    exponent = of_a - of_b + exponent_field(q)
    half = (exponent & 0xFFFFFFFF) >> 1
    result = multiply(with_exponent(q, half), with_exponent(ONE, exponent - half))
    scale = from_bits(~integer_bits(b).astype(np.int64) & ~FRACTION)
    nan = from_bits(np.where(above(np.abs(b), INF), -1, 0))
    usual = (of_a >= 1) & (of_a < 255) & (of_b >= -126) & (of_b < 128)
    return np.where(usual, result, multiply_add(-a, scale, nan))


def _as_fixed_point(x: Image) -> tuple[Image, np.ndarray]:
    """The fraction of x times 2^23 as a number, and the last 8 bits of its integer."""
    exponent = exponent_field(x) - 127
    size = bits(x).astype(np.int64) & FRACTION | FRACTION + 1
    fixed = np.where(exponent >= 0, size << (exponent & 31), size >> (-exponent & 31))
    return (fixed & FRACTION).astype(np.float32), fixed >> 23 & 255


PARABOLA = (4.791750143340323e-15, 7.839635491371155e-08, 1.0017248)


def _power_of_two(x: Image, last: float = PARABOLA[2]) -> Image:
    """2^(x - 127) for x from 0 to 255, with 9 bits (exp_21f of Moroz and others, 2022)."""
    fraction, field = _as_fixed_point(x)
    return with_exponent(polynomial(fraction, *PARABOLA[:2], last), field)


OF_EXP = 1 + 2**-9
"""The last term of exp's own parabola, which is loaded as a number of 16 bits."""


def _exp_21f(x: Image, log2: float = 1.4426950216293335, last: float = PARABOLA[2]) -> Image:
    """exp with some 9 bits (ckernel_sfpu_exp.h): 0 below -88, and of NaN what becomes Inf in bfloat16."""
    scaled = larger(smaller(multiply_add(x, log2, 127), np.float32(255)), np.float32(0))
    return _power_of_two(scaled, last)


def exp(x: Image, *, wide: bool) -> Image:
    """e^x (ckernel_sfpu_exp.h)."""
    if not wide:
        return _exp_21f(x, last=OF_EXP)
    scaled = multiply(x, 1.442695)
    whole = to_integer(scaled, 32767)
    whole = np.where(is_negative(scaled), -whole, whole)
    j = whole.astype(np.float32)
    f = multiply_add(j, -1.42860677e-6, multiply_add(j, -6.93145752e-1, x))
    y = polynomial(f, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1)
    r = multiply_add(y, f, ONE)
    field = exponent_field(r) + whole
    result = np.where(field < 1, np.float32(0), with_exponent(r, field))
    return np.where(field < 255, result, multiply(y, INF))


EXP2 = series("0x1.41cp-13 0x1.5f4p-10 0x1.3b4p-7 0x1.c6afd8p-5 0x1.ebfba0p-3 0x1.62e42ep-1")


def exp2(x: Image, *, wide: bool) -> Image:
    """2^x (ckernel_sfpu_exp2.h)."""
    if not wide:
        return _exp_21f(x, 1)
    whole = to_integer(x, 32767)
    whole = np.where(is_negative(x), -whole, whole)
    f = subtract(x, whole.astype(np.float32))
    y = polynomial(f, *EXP2[:4])
    r = multiply_add(polynomial(f, *EXP2), f, ONE)
    field = exponent_field(r) + whole
    result = np.where(field < 1, np.float32(0), with_exponent(r, field))
    inside = (field < 255) & ~(np.isnan(x) & is_negative(x))
    return np.where(inside, result, multiply(y, INF))


def expm1(x: Image, *, wide: bool) -> Image:
    """e^x - 1 (ckernel_sfpu_expm1.h): half of it, from half of 2^j, but for j = 0."""
    bias = np.float32(12582912)
    shifted = multiply_add(1.442695, x, bias)
    power, j = integer_bits(shifted).astype(np.int64) << 23, subtract(shifted, bias)
    scale = from_bits(power + integer_bits(HALF))
    jm2 = multiply_add(j, ONE, -2)
    if wide:
        f = multiply_add(j, -1.42860677e-6, multiply_add(j, -0.693145752, x))
        s, jm1 = multiply(f, f), multiply_add(j, ONE, -1)
        r = polynomial(
            f,
            1.974105835e-04,
            1.393107930e-3,
            8.333439939e-3,
            4.166680202e-2,
            1.666667163e-1,
            from_bits(integer_bits(HALF).astype(np.int64) - 1),
        )
        r = multiply_add(r, s, np.where(jm1 == 0, multiply_add(f, ONE, HALF), f))
        y = subtract(scale, HALF)
        more = multiply_add(multiply_add(r, scale, subtract(subtract(scale, y), HALF)), ONE, y)
        more = np.where(jm1 == 0, r, _ended(more, jm2, usual=jm1 == 0))
    else:
        f = multiply_add(j, -0.6931471805599453, x)
        r = polynomial(f, 8.361816406e-03, 4.177856445e-02, 1.666259766e-01, HALF)
        r = multiply_add(r, multiply(f, f), f)
        more = _ended(multiply_add(scale, r, subtract(scale, HALF)), jm2, usual=False)
    return np.where(j == 0, r, multiply(more, TWO))


def _ended(value: Image, jm2: Image, *, usual: np.ndarray | bool) -> Image:
    """`value`, and where 2^j is beyond float32 Inf, -1/2 or NaN."""
    far = (to_integer(jm2, 127) >= 127) & np.logical_not(usual) & ~(np.isnan(jm2) & is_negative(jm2))
    return np.where(far, np.where(is_negative(jm2), -HALF, multiply(jm2, INF)), value)


def sigmoid(x: Image, *, wide: bool) -> Image:
    """1 / (1 + e^-x) (ckernel_sfpu_sigmoid.h)."""
    if wide:
        return reciprocal_by_newton(multiply_add(exp(-x, wide=True), ONE, ONE), 2)
    return reciprocal_by_newton(multiply_add(_exp_21f(-x), ONE, ONE), 1)


def silu(x: Image, *, wide: bool) -> Image:
    """x / (1 + e^-x) (ckernel_sfpu_silu.h)."""
    return multiply(x, sigmoid(x, wide=wide))


def tanh(x: Image, *, wide: bool) -> Image:
    """The hyperbolic tangent (ckernel_sfpu_tanh.h)."""
    if not wide:
        a = np.abs(x)
        y = polynomial(
            a,
            5.876733921468257904052734375e-3,
            -6.6649019718170166015625e-2,
            0.281917631626129150390625,
            -0.4890659749507904052734375,
            3.0897438526153564453125e-2,
            0.999004364013671875,
            0,
        )
        return np.copysign(smaller(y, ONE), x)
    scaled = multiply(x, np.float32(2) * np.float32(1.442695))
    whole = to_integer(scaled, 255)
    a = np.abs(multiply_add(x, ONE, x))
    f = multiply_add(whole.astype(np.float32), -0.6931471805599453, a)
    r = polynomial(f, 1.974105835e-04, 1.393318176e-3, 8.331298828e-3, 4.166680202e-2, 1.666667163e-1, 0.5)
    r = multiply_add(r, multiply(f, f), f)
    scale = with_exponent(np.zeros_like(f), whole + 126)
    top = multiply_add(r, scale, subtract(scale, HALF))
    one = multiply_add(from_bits(integer_bits(a).astype(np.int64) - 1), np.float32(0), ONE)
    bottom = multiply_add(top, ONE, ONE)
    seed = reciprocal_seed(bottom)
    inverse = multiply_add(seed, multiply_add(-bottom, seed, ONE), seed)
    y = multiply(top, inverse)
    y = multiply_add(multiply_add(-bottom, y, top), inverse, y)
    y = np.where(exponent_field(x) >= 115, y, multiply(x, ONE))
    return np.copysign(np.where(whole < 61, y, one), x)


ULP, BITS = np.float32(1.19209290e-7), np.float32(1.4426950408889634)
LOG_2 = np.float32(0.693147182) * ULP
THREE_QUARTERS = 0x3F400000
LOG = {
    True: series(
        "-0x1.92cp-5 0x1.b84p-4 -0x1.0c4p-3 0x1.274p-3 -0x1.55p-3 0x1.998p-3 -0x1.00001ap-2 0x1.555572p-2 -0x1p-1"
    ),
    False: series("-0x1p-2 0x1.744p-2 -0x1.008p-1"),
}


def _power(x: Image) -> np.ndarray:
    """2^23 k, where x is 2^k times something from 0.75 to 1.5."""
    return (integer_bits(x).astype(np.int64) - THREE_QUARTERS).astype(np.int32) & np.int32(~FRACTION)


def _with_power(m: Image, power: np.ndarray, *, wide: bool, binary: bool = False) -> Image:
    """The logarithm of 2^k (1 + m), natural or `binary`."""
    r = multiply_add(polynomial(m, *LOG[wide]), multiply(m, m), m)
    if binary:
        return multiply_add(power.astype(np.float32), ULP, multiply(r, BITS))
    return multiply_add(power.astype(np.float32), LOG_2, r)


def log(x: Image, *, wide: bool) -> Image:
    """The natural logarithm (ckernel_sfpu_log.h)."""
    return _log(x, wide=wide, binary=False)


def log2(x: Image, *, wide: bool) -> Image:
    """The logarithm to base 2 (ckernel_sfpu_log.h)."""
    return _log(x, wide=wide, binary=True)


def _log(x: Image, *, wide: bool, binary: bool) -> Image:
    x = multiply_add(x, ONE)
    power = _power(x)
    m = subtract(from_bits(integer_bits(x).astype(np.int64) - power), ONE)
    result = _with_power(m, power, wide=wide, binary=binary)
    field = exponent_field(x)
    end = with_exponent(x, np.where(field == 255, 255, field - 1))
    result = np.where(np.isfinite(end), result, multiply(result, end))
    return np.where(is_negative(x), NAN, result)


def log1p(x: Image, *, wide: bool) -> Image:
    """The logarithm of 1 + x (ckernel_sfpu_log1p.h)."""
    u = multiply_add(x, ONE, ONE)
    power = _power(u)
    scale = from_bits(integer_bits(np.float32(-4)).astype(np.int64) - power)
    m = from_bits(integer_bits(x).astype(np.int64) - power)
    m = multiply_add(m, ONE, multiply_add(-0.25, scale, -ONE))
    result = np.where(integer_bits(u) >= INF_BITS, u, _with_power(m, power, wide=wide))
    return np.where(is_negative(u), NAN, result)


def _root(x: Image) -> tuple[Image, Image, Image]:
    """1 / sqrt(x) with some 18 bits, x times it, and 1 minus x times its square (ckernel_sfpu_sqrt.h)."""
    y = from_bits(0x5F1110A0 - (bits(x) >> 1).astype(np.int64))
    c = multiply(-y, multiply(x, y))
    y = multiply(y, multiply_add(c, multiply_add(c, ONE, 2.2533049), 2.2825186))
    xy = multiply(x, y)
    return y, xy, multiply_add(-y, xy, ONE)


def sqrt(x: Image, *, wide: bool) -> Image:
    """The square root (ckernel_sfpu_sqrt.h)."""
    _, xy, rest = _root(x)
    y = np.where(integer_bits(x) < INF_BITS, multiply_add(rest, multiply(xy, HALF), xy), xy)
    return np.where(bits(x) << 1 == 0, x, np.where(is_negative(x), NAN, y))


def rsqrt(x: Image, *, wide: bool) -> Image:
    """1 over the square root (ckernel_sfpu_sqrt.h)."""
    y, _, rest = _root(x)
    field = exponent_field(y)
    y = multiply_add(rest, with_exponent(y, np.where(field == 255, 255, field - 1)), y)
    end = INF_BITS - integer_bits(x).astype(np.int64)
    at_end = (end == 0) | (bits(x) << 1 == 0)
    return np.where(at_end, from_bits(end), np.where(is_negative(x), NAN, y))


CBRT = series("0x1.04cdb2p-1 -0x1.403e6cp0 0x1.c09806p0")
CBRT_START = np.float32(1418472267) / np.float32(256) + np.float32(8388608)
"""Each step of it is rounded."""


def cbrt(x: Image, *, wide: bool) -> Image:
    """The cube root (ckernel_sfpu_cbrt.h)."""
    third = np.float32(float.fromhex("-0x1.555556p-10"))
    a = np.abs(x)
    f = multiply_add(bits(a).astype(np.float32), third, CBRT_START)
    y = from_bits(integer_bits(f).astype(np.int64) << 8)
    c2, c1, c0 = CBRT
    if wide:
        c = multiply(multiply(a, y), multiply(y, y))
        y = multiply(y, multiply_add(c, multiply_add(c2, c, c1), c0))
        d = multiply(a, multiply(y, y))
        t = multiply_add(multiply_add(d, y, -ONE), third * np.float32(256), ONE)
    else:
        d = multiply(a, multiply(y, y))
        c = multiply(d, y)
        t = multiply_add(c, multiply_add(c2, c, c1), c0)
    return multiply(np.copysign(d, x), multiply(t, t))


ERF = {
    True: (
        (
            -2.8632063387e-10,
            2.7384647439e-08,
            1.7678321456e-05,
            6.1307044234e-04,
            5.6230435148e-03,
            6.2133435160e-02,
            2.1477432549e-01,
            1.1283791065e00,
        ),
        (
            -6.7350725691e-12,
            -3.5153888689e-09,
            1.3156344494e-06,
            1.3179056987e-04,
            1.9545555115e-03,
            1.9642570987e-02,
            1.2961706519e-01,
            5.2367275953e-01,
            1,
        ),
    ),
    False: (
        (7.4481184425e-04, 4.5400281738e-02, 2.7609212279e-01, 1.1280932447e00),
        (2.4813862145e-05, 8.2844606784e-03, 1.3675764810e-01, 5.7439188334e-01, 1),
    ),
}
"""Numerator over x and denominator in x^2 (ckernel_sfpu_erf.h)."""


def _erf(x: Image, *, wide: bool) -> Image:
    square, (top, bottom) = multiply(x, x), ERF[wide]
    numerator = multiply(polynomial(square, *top), x)
    result = multiply(numerator, reciprocal_by_newton(polynomial(square, *bottom), 2))
    return larger(smaller(result, ONE), -ONE)


def erf(x: Image, *, wide: bool) -> Image:
    """The error function (ckernel_sfpu_erf.h)."""
    return _erf(np.copysign(smaller(size(x), np.float32(10)), x), wide=wide)


ERFC = (
    (
        (1.3746744953e-02, -1.5691982210e-01, 6.8185544014e-01, -1.3375675678, 1.0000233650),
        (2.8375532478e-02, 2.5104774162e-02, -3.4568668343e-03, 4.3667086959e-01, -2.0801517367e-01, 1),
    ),
    (
        (-4.7387182178e-08, 9.1439767402e-07, -6.6162156145e-06, 2.1275576728e-05, -2.5655237550e-05),
        (-2.1375391632e-02, 1.2677097321e-01, -1.3888636231e-01, -2.0572184026e-01, -1.6457208991e-01, 1),
    ),
)
"""Numerator and denominator up to 2.5 and from there to 5 (ckernel_sfpu_erfc.h)."""


def erfc(x: Image, *, wide: bool) -> Image:
    """1 minus the error function, over a reciprocal of 7 bits (ckernel_sfpu_erfc.h)."""
    a = smaller(size(x), np.float32(5))
    near, far = ((polynomial(a, *top), polynomial(a, *bottom)) for top, bottom in ERFC)
    is_far = ~is_negative(subtract(a, np.float32(2.5)))
    top, bottom = (np.where(is_far, b, a) for a, b in zip(near, far, strict=True))
    r = multiply(top, reciprocal_seed(bottom))
    return np.where(is_negative(x), subtract(TWO, r), r)


LAST = np.float32(-5.54259443)
"""Where gelu begins to be other than 0."""
TAIL = (7.5950479368e-04, 1.3809983619e-02, 9.5413386822e-02, 3.0369991064e-01)
CORE = (
    7.9821413868e-08,
    -3.8082057209e-06,
    8.1812159812e-05,
    -1.0717806322e-03,
    9.7720050615e-03,
    -6.6361041488e-02,
    3.9894227818e-01,
)
GRID = np.float32(0.375)
"""Added and taken away, it rounds a small number to multiples of 2^-25."""


def gelu(x: Image, *, wide: bool) -> Image:
    """x times the normal distribution, 0 from -5.54 down (ckernel_sfpu_gelu.h)."""
    inside = above(x, LAST)
    if wide:
        value = _erf(smaller(multiply(x, 0.7071067811865475), np.float32(10)), wide=True)
        result = multiply(x, multiply_add(HALF, value, HALF))
        result = np.where(value == -1, multiply(x, 2.0**-25), result)
        return np.where(inside, result, subtract(x, x))
    square = multiply(x, x)
    tail = _power_of_two(multiply_add(square, -0.72134752044, 127))
    tail = multiply(tail, polynomial(x, *TAIL))
    tail = multiply(x, subtract(multiply_add(tail, ONE, GRID), GRID))
    core = multiply(x, multiply_add(x, polynomial(square, *CORE), HALF))
    result = np.where(above(np.float32(-3.125), x), tail, np.where(above(np.float32(2.78125), x), core, x))
    return np.where(inside, result, np.float32(0))


def gelu_tanh(x: Image, *, wide: bool) -> Image:
    """gelu by the hyperbolic tangent of float32 (ckernel_sfpu_gelu.h)."""
    p = multiply_add(0.044715, multiply(x, x), ONE)
    t = tanh(multiply(0.7978845608028654, multiply(x, p)), wide=True)
    half = multiply(HALF, x)
    return multiply_add(half, t, half)


def hardsigmoid(x: Image, *, wide: bool) -> Image:
    """x / 6 + 1/2 from 0 to 1 (ckernel_sfpu_activations.h)."""
    return larger(smaller(multiply_add(x, 0.1666666716337204, HALF), ONE), np.float32(0))


def _root_by_newton(x: Image) -> Image:
    """The square root with some 20 bits (ckernel_sfpu_sqrt_custom.h)."""
    y = from_bits(0x5F370000 - (bits(x) >> 1).astype(np.int64))
    half = multiply(x, -HALF)
    for _ in range(2):
        y = multiply(multiply_add(multiply(y, y), half, np.float32(1.5)), y)
    return np.where(np.isfinite(x) & (bits(x) << 1 != 0), multiply(y, x), x)


ERFINV = (-4.330746750799873, 6.802721088435375)
"""-2 / (pi a) and 1 / a, where a is 0.147."""


def erfinv(x: Image, *, wide: bool) -> Image:
    """The inverse of the error function by a formula of 2 digits or so (ckernel_sfpu_erfinv.h)."""
    logarithm = log(multiply_add(-x, x, ONE), wide=False)
    half = multiply_add(logarithm, -HALF, ERFINV[0])
    root = _root_by_newton(multiply_add(half, half, -multiply(logarithm, ERFINV[1])))
    return np.copysign(_root_by_newton(multiply_add(half, ONE, root)), x)


def softsign(x: Image, *, wide: bool) -> Image:
    """x over 1 + |x| (ckernel_sfpu_softsign.h)."""
    return multiply(x, reciprocal_by_newton(multiply_add(np.abs(x), ONE, ONE), 2))


def square(x: Image, *, wide: bool) -> Image:
    """x x, rounded to the nearest even bfloat16 where Dst has 16 bits (ckernel_sfpu_square.h)."""
    result = multiply(x, x)
    return result if wide else to_mantissa(result, 7, "even")


def logical_not(x: Image, *, wide: bool) -> Image:
    """1 of +0 alone, whose bits are compared (ckernel_sfpu_logical_not.h)."""
    return (bits(x) == 0).astype(np.float32)


def sign(x: Image, *, wide: bool) -> Image:
    """1 with the sign of x, 0 of zeros alone (ckernel_sfpu_sign.h)."""
    return np.where(bits(x) << 1 == 0, np.float32(0), np.copysign(ONE, x))


def floor(x: Image, *, wide: bool) -> Image:
    """The largest integer below, -1 of negative denormals too (ckernel_sfpu_rounding_ops.h of tt-llk)."""
    whole = np.trunc(x)
    return np.where(above(whole, x), multiply_add(ONE, whole, -ONE), whole)


def ceil(x: Image, *, wide: bool) -> Image:
    """The smallest integer above, 1 of denormals too (ckernel_sfpu_rounding_ops.h of tt-llk)."""
    whole = np.trunc(x)
    return np.where(above(x, whole), multiply_add(ONE, whole, ONE), whole)


def relu6(x: Image, *, wide: bool) -> Image:
    """x from 0 to 6, 6 of NaN (ckernel_sfpu_relu.h)."""
    return smaller(larger(x, np.float32(0)), np.float32(6))


FUNCTIONS = {
    function.__name__: function
    for function in (
        reciprocal,
        divide,
        exp,
        exp2,
        expm1,
        sigmoid,
        silu,
        tanh,
        log,
        log2,
        log1p,
        sqrt,
        rsqrt,
        cbrt,
        erf,
        erfc,
        gelu,
        gelu_tanh,
        softsign,
        sign,
        floor,
        ceil,
        relu6,
        hardsigmoid,
        square,
        logical_not,
        erfinv,
    )
}
"""By the kernel's name."""
