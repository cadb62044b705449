"""Powers of ttnn's own kernels on Blackhole, bit for bit: of a scalar and of a second operand.

By ckernel_sfpu_unary_power.h and ckernel_sfpu_binary_pow.h of ttnn 0.81.1: 2 to the power of the exponent times a
logarithm, in float32 as a sum of two numbers; whole scalars from 0 on by multiplying, cut where Dst has 16 bits.
"""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.rounding import Image, bits, to_mantissa
from opscope.simulator.kernels.real.functions import FRACTION, INF, NAN, ONE, TWO, exp
from opscope.simulator.kernels.real.vector_unit import (
    Number,
    above,
    exponent_field,
    from_bits,
    integer_bits,
    is_negative,
    larger,
    multiply,
    multiply_add,
    polynomial,
    series,
    size,
    subtract,
    to_integer,
    with_exponent,
)

TO_BASE_2, TO_BASE_2_SHORT = np.float32(1.4426950408889634), np.float32(1.442695)
LOG_SMALL = series("0x2.44734p-4 -0xd.e712ap-4 0x2.4f5388p0 -0x1.952992p0")
"""The logarithm from 1 to 2, less 1 % or so."""
LARGEST = 2**31 - 1
ARTANH = (0.09090909090909091, 0.1111111111111111, 0.14285714285714285, 0.2, 0.3333333333333333, 1)
ROOT_2 = np.float32(1.4142135381698608)
SPLIT, TO_INTEGER = np.float32(4097), np.float32(12582912)
EXP = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1, 1)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
LN2 = np.float32(0.693147180559945309)
LOWEST_OF_SCALAR, LOWEST = np.float32(-126.99999237060547), np.float32(-127)


def pow_scalar(x: Image, exponent: float, *, wide: bool) -> Image:
    """x to the power of a number."""
    if exponent >= 0 and exponent == int(exponent):
        result = _by_multiplying(x, int(exponent))
        return result if wide else to_mantissa(result, 7, "truncate")
    power = np.float32(exponent)
    result = _of_scalar(x, power) if wide else _short(x, power, TO_BASE_2)
    result = _with_sign(x, result, power)
    zero = np.float32(0) if exponent > 0 else NAN
    return np.where(size(x) == 0, zero, result)


def pow_tensor(x: Image, power: Image, *, wide: bool) -> Image:
    """x to the power of another operand."""
    x, power = np.broadcast_arrays(x, power)
    x, power = np.asarray(x, order="C"), np.asarray(power, order="C")  # a scalar stays one
    of_zero = (bits(x) << 1 == 0) & (bits(power) << 1 != 0)
    below = is_negative(power)
    if not wide:
        result = _with_sign(x, _short(x, power, TO_BASE_2_SHORT), power)
        return np.where(of_zero, np.where(below, NAN, np.float32(0)), result)
    result = _with_sign(x, _of_operand(x, power), size(power))
    result = np.where(of_zero, np.copysign(np.where(below, INF, np.float32(0)), result), result)
    return np.where(of_zero & np.isnan(power), NAN, result)


def _by_multiplying(x: Image, exponent: int) -> Image:
    if exponent == 0:
        return np.ones_like(x)
    result, rest = x, exponent - 1
    while rest:
        result = multiply(result, x) if rest & 1 else result
        x, rest = multiply(x, x), rest >> 1
    return result


def _with_sign(x: Image, result: Image, power: Number) -> Image:
    """`result`, of negative numbers with the sign of an odd power, and NaN of one that is not whole."""
    number = to_integer(np.asarray(power, np.float32), 32767)
    signed = from_bits(bits(result).astype(np.int64) & 0x7FFFFFFF | (number & 1) << 31)
    rounded = np.where(number == 0, np.float32(0), np.copysign(number.astype(np.float32), power))
    signed = np.where(bits(rounded) == bits(np.asarray(power, np.float32)), signed, NAN)
    return np.where(is_negative(x), signed, result)


def _whole(x: Image) -> np.ndarray:
    """x cut to an integer, 0 below 1 and the largest one above 2^31; its sign is not looked at."""
    exponent = exponent_field(x) - 127
    number = bits(x).astype(np.int64) & FRACTION | FRACTION + 1
    shifted = np.where(exponent >= 23, number << np.clip(exponent - 23, 0, 8), number >> np.clip(23 - exponent, 0, 63))
    return np.where(exponent < 0, 0, np.where(exponent > 30, LARGEST, shifted))


def _short(x: Image, power: Number, to_base_2: np.float32) -> Image:
    """|x|^power with some 9 bits (exp_21f of Moroz and others, 2022)."""
    m = with_exponent(np.abs(x), np.full(np.shape(x), 127))
    exponent = (exponent_field(x) - 127).astype(np.float32)
    z = multiply(power, multiply_add(polynomial(m, *LOG_SMALL), to_base_2, exponent))
    z = np.where(above(LOWEST, z), LOWEST, z)
    field = exponent_field(z)
    z = with_exponent(z, np.where(field == 255, 255, field + 23))
    fixed = _whole(multiply_add(z, ONE, np.float32(0x3F800000)))
    fraction, field = fixed & FRACTION, fixed >> 23
    a, b = ((offset + fraction).astype(np.float32) for offset in (0xF94EE7, 0x560E))
    return with_exponent(from_bits(_whole(multiply(multiply(np.float32(0.40196114e-7), a), b))), field)


def _parts(x: Image, start: tuple[float, float], power: Number) -> tuple[Image, Image]:
    """Two numbers whose sum is power times the logarithm of |x| to base 2; `start`: of the reciprocal."""
    a = size(x)
    m, exponent = with_exponent(a, np.full(np.shape(x), 127)), exponent_field(a) - 127
    is_large = ~above(ROOT_2, m)
    m, exponent = np.where(is_large, with_exponent(m, np.full(np.shape(x), 126)), m), exponent + is_large
    above_1 = multiply_add(m, ONE, ONE)
    y = multiply_add(-above_1, start[1], start[0])
    for _ in range(3):
        y = multiply(y, multiply_add(-above_1, y, TWO))
    z = multiply(multiply_add(m, ONE, -ONE), y)
    ln = multiply(multiply(z, polynomial(multiply(z, z), *ARTANH)), TWO)
    wide = multiply(power, SPLIT)
    high = subtract(wide, subtract(wide, np.asarray(power, np.float32)))
    low = subtract(np.asarray(power, np.float32), high)
    e = exponent.astype(np.float32)
    return multiply(high, e), multiply_add(low, e, multiply(power, multiply(ln, TO_BASE_2)))


def _sum(high: Image, low: Image) -> tuple[Image, Image]:
    """The rounded sum, and what it lacks."""
    total = multiply_add(high, ONE, low)
    return total, multiply_add(low, ONE, multiply_add(high, ONE, -total))


def _rounded(x: Image) -> tuple[Image, np.ndarray]:
    """The nearest whole number, as a number and as an integer."""
    moved = multiply_add(x, ONE, TO_INTEGER)
    return multiply_add(moved, ONE, -TO_INTEGER), integer_bits(moved).astype(np.int64) - integer_bits(TO_INTEGER)


def _of_scalar(x: Image, power: np.float32) -> Image:
    total, rest = _sum(*_parts(x, (1.003, 0.244), power))
    total = larger(total, LOWEST_OF_SCALAR)
    k, number = _rounded(total)
    f = multiply_add(subtract(total, k), ONE, rest)
    p = polynomial(multiply_add(f, LN2_HIGH, multiply(f, LN2_LOW)), *EXP)
    result = with_exponent(p, exponent_field(p) + number)
    return np.where(above(np.float32(128), total), result, INF)


def _of_operand(x: Image, power: Image) -> Image:
    total, rest = _sum(*_parts(x, (1.0, 0.2426406871192851), power))
    is_low = above(LOWEST, total)
    total, rest = np.where(is_low, LOWEST, total), np.where(is_low, np.float32(0), rest)
    k, number = _rounded(total)
    y = exp(multiply(multiply_add(subtract(total, k), ONE, rest), LN2), wide=True)
    field = exponent_field(y) + number
    return np.where(field >= 255, INF, with_exponent(y, field))


FUNCTIONS = {"pow_tensor": pow_tensor}
"""By the kernel's name, of operands alone."""
