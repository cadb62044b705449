"""The functions of ttnn's own kernels on Blackhole: trigonometric and hyperbolic ones, and their inverses.

All by ckernel_sfpu_trigonometry.h, as `opscope.simulator.kernels.real.functions` says. An angle loses its multiple of
pi in four float32 steps, so that no digit is right above some 1e6 and the result is Inf where a step overflows.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.rounding import Image, bits, to_mantissa
from opscope.simulator.kernels.real.functions import HALF, INF, NAN, ONE, TWO, log1p, reciprocal_by_newton
from opscope.simulator.kernels.real.vector_unit import (
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
)

HALF_PI, BIAS = 1.5707963705062866, np.float32(12582912)
BY_PI, BY_HALF_PI = 0.31830987334251404, 0.6366197466850281
PARTS = series("-0x1.92p+0 -0x1.fbp-12 -0x1.51p-22 -0x1.0b4612p-34")
"""Four numbers whose sum is -pi/2."""
SINE = {
    True: series("0x1.5dc908p-19 -0x1.9f70fp-13 0x1.110edap-7 -0x1.55554cp-3"),
    False: series("-0x1.8b10a4p-13 0x1.10c2a2p-7 -0x1.5554a4p-3"),
}
TANGENT = {
    True: series("0x1.fa9f82p-9 0x1.2b404p-10 0x1.4787dp-7 0x1.620abcp-6 0x1.ba5716p-5 0x1.111072p-3 0x1.555556p-2"),
    False: series("0x1.4f1f4ep-4 0x1.02b98p-3 0x1.55953p-2"),
}


def _reduced(x: Image, multiple: Image, unit: int) -> Image:
    """x minus a multiple of pi/2 times `unit`."""
    for part in PARTS:
        x = multiply_add(multiple, unit * part, x)
    return x


def _odd(x: Image) -> np.ndarray:
    """The sign bit where a number to which `BIAS` was added is odd."""
    return (bits(x).astype(np.int64) & 1) << 31


def _sine_of(a: Image, flip: np.ndarray, *, wide: bool) -> Image:
    s = multiply(a, a)
    a = from_bits(bits(a).astype(np.int64) ^ flip)
    return multiply_add(polynomial(s, *SINE[wide]), multiply(a, s), a)


def sin(x: Image, *, wide: bool) -> Image:
    """The sine."""
    shifted = multiply_add(x, BY_PI, BIAS)
    return _sine_of(_reduced(x, subtract(shifted, BIAS), 2), _odd(shifted), wide=wide)


def cos(x: Image, *, wide: bool) -> Image:
    """The cosine: the sine of an odd multiple of pi/2 more."""
    shifted = multiply_add(multiply_add(x, BY_PI, HALF), ONE, BIAS)
    odd = multiply_add(subtract(shifted, BIAS), TWO, -ONE)
    return _sine_of(_reduced(x, odd, 1), _odd(shifted), wide=wide)


def tan(x: Image, *, wide: bool) -> Image:
    """The tangent: beyond pi/4 minus 1 over that of the rest."""
    shifted = multiply_add(x, BY_HALF_PI, BIAS)
    a = _reduced(x, subtract(shifted, BIAS), 1)
    square = multiply(a, a)
    t = multiply(polynomial(square, *TANGENT[wide]), square)
    r = multiply_add(t, a, a)
    seed = reciprocal_seed(r)
    inverse = multiply_add(-seed, multiply_add(-r, seed, ONE), -seed)
    if wide:
        rest = multiply_add(t, a, multiply_add(-ONE, r, a))
        inverse = multiply_add(multiply_add(rest, inverse, multiply_add(r, inverse, ONE)), inverse, inverse)
    return np.where(_odd(shifted) != 0, inverse, r)


def _reciprocal(x: Image, *, wide: bool) -> Image:
    """1 / x of a number above 0."""
    y = reciprocal_seed(x)
    for _ in range(2 if wide else 1):
        y = multiply_add(y, multiply_add(-x, y, ONE), y)
    return y


ATAN = {
    True: series("0x1.01cp-8 -0x1.4bcp-6 0x1.93p-5 -0x1.48cp-4 0x1.bd4p-4 -0x1.24p-3 0x1.999384p-3 -0x1.555552p-2"),
    False: (
        -4.4326744973659515380859375e-2,
        0.1555790007114410400390625,
        -0.325808584690093994140625,
        0.999787867069244384765625,
    ),
}


def atan(x: Image, *, wide: bool) -> Image:
    """The inverse tangent."""
    a = np.abs(x)
    if not wide:
        above_one = ~is_negative(subtract(a, ONE))
        t = np.where(above_one, reciprocal_by_newton(a, 2), a)
        square = multiply(t, t)
        t = multiply(polynomial(square, *ATAN[False]), t)
        t = np.where(above_one, subtract(np.float32(HALF_PI), t), t)
        return np.where(np.isnan(x), NAN, np.copysign(t, x))
    exponent = exponent_field(a) - 127
    end = multiply(from_bits(integer_bits(a).astype(np.int64) - 1), 0)
    t = np.where(exponent >= 0, np.where(exponent < 26, _reciprocal(a, wide=True), end), a)
    square = multiply(t, t)
    r = multiply_add(polynomial(square, *ATAN[True]), multiply(square, t), t)
    return np.copysign(np.where(exponent >= 0, subtract(np.float32(HALF_PI), r), r), x)


ASIN = {
    True: series("0x1.9ep-5 0x1.364p-6 0x1.7dcp-5 0x1.329a74p-4 0x1.55578cp-3"),
    False: (
        0.083148844540119171142578125,
        0.06381262838840484619140625,
        0.16771225631237030029296875,
        0.999978601932525634765625,
    ),
}
ACOS = series("0x1.830p-5 0x1.cap-8 0x1.158p-5 0x1.6acp-5 0x1.33411ep-4 0x1.555552p-3")


def _root(x: Image) -> Image:
    """The square root of what is left near 1 (ckernel_sfpu_sqrt.h)."""
    y = from_bits(0x5F1110A0 - (bits(x) >> 1).astype(np.int64))
    c = multiply(-y, multiply(x, y))
    y = multiply(y, multiply_add(c, multiply_add(c, ONE, 2.2533049), 2.2825186))
    xy = multiply(x, y)
    return multiply_add(multiply_add(-y, xy, ONE), multiply(HALF, xy), xy)


def _fast_root(x: Image) -> Image:
    """The square root by two of Newton's steps (ckernel_sfpu_sqrt_custom.h)."""
    y = from_bits(0x5F370000 - (bits(x) >> 1).astype(np.int64))
    minus_half = multiply(x, -HALF)
    for _ in range(2):
        y = multiply(multiply_add(multiply(y, y), minus_half, 1.5), y)
    return np.where((x != 0) & np.isfinite(x), multiply(y, x), x)


def _arc(x: Image) -> Image:
    """The inverse sine for a Dst of 16 bits, above 5/8 by that of the half angle."""
    a = np.abs(x)
    below = is_negative(subtract(a, np.float32(0.625)))
    z = np.where(below, a, _fast_root(multiply(subtract(ONE, a), HALF)))
    result = multiply(z, polynomial(multiply(z, z), *ASIN[False]))
    return np.copysign(np.where(below, result, multiply_add(-TWO, result, HALF_PI)), x)


def asin(x: Image, *, wide: bool) -> Image:
    """The inverse sine."""
    a = size(x)
    if not wide:
        return np.where(np.abs(x) <= 1, _arc(x), NAN)
    half = multiply(subtract(ONE, a), HALF)
    below = is_negative(subtract(a, np.float32(0.5625)))
    z = np.where(below, a, _root(half))
    square = multiply(z, z)
    r = multiply_add(multiply(polynomial(square, *ASIN[True]), square), z, z)
    r = np.where(below, r, multiply_add(-TWO, r, HALF_PI))
    return np.where(is_negative(half), NAN, np.copysign(r, x))


def acos(x: Image, *, wide: bool) -> Image:
    """The inverse cosine."""
    if not wide:
        return np.where(np.abs(x) <= 1, subtract(np.float32(HALF_PI), _arc(x)), NAN)
    a = size(x)
    half = multiply(subtract(ONE, a), HALF)
    below = is_negative(subtract(a, np.float32(0.5625)))
    z = np.where(below, a, _root(half))
    square = multiply(z, z)
    p = multiply(polynomial(square, *ACOS), square)
    z = np.where(is_negative(x) ^ below, -np.abs(z), np.abs(z))
    r = multiply_add(p, z, z)
    r = np.where(is_negative(z) | below, multiply_add(r, ONE, HALF_PI), r)
    r = np.where(below, r, multiply_add(r, ONE, r))
    return np.where(is_negative(half), NAN, r)


def cosh(x: Image, *, wide: bool) -> Image:
    """The hyperbolic cosine."""
    a = np.abs(x)
    whole = to_integer(multiply(a, 1.442695), 255)
    j = whole.astype(np.float32)
    if wide:
        f = multiply_add(j, -1.42860677e-6, multiply_add(j, -0.693145752, a))
        r = polynomial(f, 1.37805939e-3, 8.37312452e-3, 4.16695364e-2, 1.66664720e-1, 4.99999851e-1, 1, 1)
    else:
        f = multiply_add(j, -0.6931471805599453, a)
        r = polynomial(f, 0.038877178, 0.168174848, 0.500122011, 0.999963462, 1)
    field = whole + 125
    quarter = np.where(field < 255, multiply(r, from_bits(field << 23)), multiply(a, INF))
    y = multiply_add(quarter, ONE, quarter)
    rest = multiply(_reciprocal(quarter, wide=wide), 0.125)
    return np.where(exponent_field(quarter) - 127 < 24, multiply_add(y, ONE, rest), y)


def sinh(x: Image, *, wide: bool) -> Image:
    """The hyperbolic sine."""
    a = np.abs(x)
    whole = to_integer(multiply(x, 1.442695), 255)
    j = whole.astype(np.float32)
    if wide:
        f = multiply_add(j, -1.42860677e-6, multiply_add(j, -0.693145752, a))
        terms = (1.974105835e-04, 1.393107930e-3, 8.333439939e-3, 4.166680202e-2, 1.666667163e-1, 4.999999702e-1)
    else:
        f = multiply_add(j, -0.6931471805599453, a)
        terms = (8.361816406e-03, 4.177856445e-02, 1.666259766e-01, 0.5)
    r = multiply_add(polynomial(f, *terms), multiply(f, f), f)
    quarter = np.float32(0.25)
    scale = from_bits((whole << 23) + integer_bits(quarter))
    q = np.where(whole < 130, multiply_add(r, scale, subtract(scale, quarter)), multiply(a, INF))
    inverse = _reciprocal(multiply_add(q, 4, ONE), wide=wide)
    y = multiply_add(q, ONE, q)
    exponent = exponent_field(q) - 127
    y = np.where(exponent < 23, multiply_add(y, inverse, y), y)
    return np.copysign(np.where(exponent >= -27, y, x), x)


FAR = np.float32(2.0**28)
"""Where a square plus or minus 1 is the square."""
LOG_TWO = np.float32(0.6931471805599453)
ASINH = (
    4.375355784e-03,
    -1.484858524e-02,
    2.785361186e-02,
    -4.417778924e-02,
    7.495806366e-02,
    -1.666652262e-01,
    1,
)


def _root_by_newton(x: Image, *, wide: bool) -> Image:
    """The square root of 0 and more, by Newton's steps for 1 over it and one for itself."""
    half = from_bits(np.where(exponent_field(x) == 255, 0, -(1 << 23)) + bits(x).astype(np.int64))
    y = from_bits(0x5F1110A0 - (bits(x) >> 1).astype(np.int64))
    for _ in range(3 if wide else 2):
        y = multiply(y, multiply_add(-multiply(half, y), y, 1.5))
    a = multiply(x, y)
    a = multiply_add(multiply(HALF, multiply_add(-a, a, x)), y, a)
    return np.where(x == 0, np.float32(0), a)


def _held(x: Image, *, wide: bool) -> Image:
    """`x` after it was in Dst, which cuts it where that has 16 bits."""
    return x if wide else to_mantissa(x, 7, "truncate")


def acosh(x: Image, *, wide: bool) -> Image:
    """The inverse hyperbolic cosine."""
    less = subtract(x, ONE)
    root = _root_by_newton(multiply(multiply_add(x, ONE, ONE), less), wide=wide)
    near = is_negative(subtract(x, FAR))
    result = log1p(_held(np.where(near, multiply_add(less, ONE, root), less), wide=wide), wide=wide)
    result = np.where(near, result, multiply_add(result, ONE, LOG_TWO))
    return np.where(x == 1, np.float32(0), np.where(is_negative(subtract(x, ONE)), NAN, result))


def asinh(x: Image, *, wide: bool) -> Image:
    """The inverse hyperbolic sine."""
    a, square = size(x), multiply(x, x)
    root = _root_by_newton(multiply_add(x, x, ONE), wide=wide)
    middle = multiply_add(square, _reciprocal(multiply_add(ONE, ONE, root), wide=wide), a)
    far, small = ~is_negative(subtract(a, FAR)), is_negative(subtract(a, np.float32(0.75)))
    argument = np.where(far, subtract(a, ONE), np.where(small, np.float32(0), middle))
    result = log1p(_held(argument, wide=wide), wide=wide)
    result = np.where(far, multiply_add(result, ONE, LOG_TWO), result)
    return np.copysign(np.where(small, multiply(a, polynomial(square, *ASINH)), result), x)


def atanh(x: Image, *, wide: bool) -> Image:
    """The inverse hyperbolic tangent."""
    a = np.where(np.abs(x) < 1, np.abs(x), np.float32(0))
    argument = multiply(multiply_add(a, ONE, a), _reciprocal(subtract(ONE, a), wide=wide))
    result = np.copysign(multiply(HALF, log1p(_held(argument, wide=wide), wide=wide)), x)
    return np.where(np.abs(x) < 1, result, np.where(np.abs(x) == 1, np.copysign(INF, x), NAN))


ATAN2 = {
    True: series("0x1.01cp-8 -0x1.4bcp-6 0x1.93p-5 -0x1.48cp-4 0x1.bd4p-4 -0x1.24p-3 0x1.99938ap-3 -0x1.555558p-2"),
    False: series("-0x1.de8p-5 0x1.668p-3 -0x1.54p-2"),
}


def atan2(y: Image, x: Image, *, wide: bool) -> Image:
    """The angle of a point, from the smaller of its distances to the axes over the larger (ckernel_sfpu_atan2.h)."""
    y, x = np.broadcast_arrays(y, x)
    low, high = smaller(np.abs(x), np.abs(y)), larger(np.abs(x), np.abs(y))
    a = multiply(low, reciprocal_by_newton(high, 2) if wide else reciprocal_seed(high))
    s = multiply(a, a)
    r = multiply_add(multiply(polynomial(s, *ATAN2[wide]), s), a, a)
    quarter = np.where(high == 0, np.float32(0), np.float32(HALF_PI / 2))
    is_steep, is_even = integer_bits(low) >= integer_bits(np.abs(x)), low == high
    r = np.where(is_steep, np.where(is_even, quarter, subtract(np.float32(HALF_PI), r)), r)
    r = np.where(is_negative(x), subtract(np.float32(2 * HALF_PI), r), r)
    return np.where(np.isnan(high), NAN, np.copysign(r, y))


FUNCTIONS = {
    function.__name__: function
    for function in (sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh, atan2)
}
