"""Instructions of Blackhole's vector unit, bit for bit, of which its kernels make their functions.

By tt-isa-documentation (BlackholeA0: SFPMAD.md, SFPARECIP.md, SFPSTOCHRND.md, SFPSWAP.md) and the public source of
ttsim 1.10.0, Tenstorrent's simulator. Numbers are float32; where a kernel works on their bits, int32.
"""

from __future__ import annotations

import numpy as np

from opscope.base import passes
from opscope.compiler.target.rounding import Image, bits

Number = Image | np.float32
NAN, INF = 0x7FC00000, 0x7F800000
SIGN, SIZE, FRACTION, FIRST = 0x80000000, 0x7FFFFFFF, 0x7FFFFF, 0x800000
EXTRA = 3
"""Bits below float32's last one that are kept of a product and of a shifted operand."""


def multiply_add(a: Number | float, b: Number | float, c: Number | float = 0.0) -> Image:
    """a b + c. Denormals are 0. Of the product 3 bits more than float32 has are kept, and whether there was more, so
    that a sum much smaller than it lacks digits."""
    a, b, c = (np.asarray(v, np.float32) for v in (a, b, c))
    if passes.compiled is not None:
        shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
        out = np.empty(shape, np.float32)
        whole = [v if v.size == 1 else np.ascontiguousarray(np.broadcast_to(v, shape)) for v in (a, b, c)]
        passes.compiled.multiply_add(*whole, out)
        return out
    return _multiply_add(a, b, c)


def multiply(a: Number | float, b: Number | float) -> Image:
    """a b: a product of 0 is +0, whatever the signs."""
    return multiply_add(a, b)


def subtract(a: Number, b: Number) -> Image:
    """a - b."""
    return multiply_add(a, np.float32(1), -b)


def _multiply_add(a: Image, b: Image, c: Image) -> Image:
    """`multiply_add` in NumPy."""
    x, y, z = (bits(v).astype(np.int64) for v in np.broadcast_arrays(a, b, c))
    (xe, xm), (ye, ym), (ze, zm) = (_parts(v) for v in (x, y, z))
    z_sign, p_sign = z & SIGN, (x ^ y) & SIGN
    special = _special(z, p_sign, (xe, xm), (ye, ym), (ze, zm))
    pe, whole = xe + ye - 127, xm * ym << EXTRA
    product = whole >> 23 | ((whole & FRACTION) != 0)
    no_product = (product == 0) | (pe < 0)
    exponent = np.maximum(pe, ze)
    product, term = _shifted(product, exponent - pe), _shifted(zm << EXTRA, exponent - ze)
    sign = np.where(product >= term, p_sign, z_sign)
    total = np.where(p_sign == z_sign, product + term, np.abs(product - term))
    down = np.frexp(total.astype(np.float64))[1] - 27
    exponent = exponent + down
    tiny = exponent <= 0
    down = down + tiny
    lost = (total & (down | 1)) != 0
    right = np.maximum(down, 0)
    value = np.where(down <= 0, total << np.maximum(-down, 0), total >> right | lost)
    result = (np.where(tiny, 0, exponent) << 23) + (value >> EXTRA & FRACTION)
    result = result + ((value & 7) + (result & 1) > 4)
    result = sign | np.where(result < FIRST, 0, result)
    result = np.where(exponent >= 255, sign | INF, result)
    result = np.where(total == 0, z_sign & p_sign, result)
    result = np.where(no_product, np.where(zm != 0, z, z_sign & p_sign), result)
    return np.where(special >= 0, special, result).astype(np.uint32).view(np.float32)


def _parts(pattern: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exponent field and significand; denormals are 0."""
    field = pattern >> 23 & 255
    return field, np.where(field == 0, 0, pattern & FRACTION | FIRST)


def _special(
    z: np.ndarray,
    p_sign: np.ndarray,
    x_parts: tuple[np.ndarray, np.ndarray],
    y_parts: tuple[np.ndarray, np.ndarray],
    z_parts: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """The result where an operand is Inf or NaN or the product alone is too large, else -1."""
    (xe, xm), (ye, ym), (ze, zm) = x_parts, y_parts, z_parts
    x_end, y_end, z_end = xe == 255, ye == 255, ze == 255
    none = (x_end & ((xm != FIRST) | (ym == 0))) | (y_end & ((ym != FIRST) | (xm == 0))) | (z_end & (zm != FIRST))
    none |= z_end & (x_end | y_end) & (z & SIGN != p_sign)
    result = np.where(none, NAN, np.where(z_end, z, p_sign | INF))
    return np.where(x_end | y_end | z_end | (xe + ye - 127 >= 255), result, -1)


def _shifted(value: np.ndarray, down: np.ndarray) -> np.ndarray:
    """`value` shifted; its last bit tells of bits that are gone, unless all are."""
    down = np.minimum(down, 62)
    left = value >> down
    return np.where((left != 0) & (left << down != value), left | 1, left)


def polynomial(x: Image, *coefficients: float | Number) -> Image:
    """A polynomial by Horner's rule, its highest coefficient first."""
    total: Image = np.asarray(coefficients[0], np.float32)
    for coefficient in coefficients[1:]:
        total = multiply_add(total, x, np.float32(coefficient))
    return total


def series(text: str) -> tuple[float, ...]:
    """Coefficients written as C writes floats in hexadecimal."""
    return tuple(float.fromhex(coefficient) for coefficient in text.split())


SEED = np.array([round(2**15 / (128.5 + i) - 128) for i in range(128)], np.uint32)
"""Fraction of the approximate reciprocal by the first 7 bits of the operand's."""


def reciprocal_seed(x: Image) -> Image:
    """1 / x with 7 bits (SFPARECIP): Inf of denormals, 0 from 2^126 on."""
    pattern = bits(x)
    size = pattern & np.uint32(SIZE)
    value = (np.uint32(253) - (size >> np.uint32(23)) << np.uint32(23)) | SEED[size >> np.uint32(16) & 127] << 16
    value = np.where(size < FIRST, np.uint32(INF), np.where(size < 0x7E800000, value, np.uint32(0)))
    return (pattern & np.uint32(SIGN) | value.astype(np.uint32)).view(np.float32)


def to_integer(x: Image, largest: int) -> np.ndarray:
    """|x| as an integer, halves upwards, up to `largest`."""
    pattern = bits(x).astype(np.int64)
    exponent, size = (pattern >> 23 & 255) - 127, pattern & FRACTION | FIRST
    whole = np.where(exponent >= 0, size << np.clip(exponent, 0, 16), size >> np.minimum(np.maximum(-exponent, 0), 31))
    whole = (whole >> 23) + (whole & FRACTION >= 0x400000)
    return np.where(exponent < -1, 0, np.where(exponent >= 16, largest, np.minimum(whole, largest)))


def integer_bits(x: Number) -> np.ndarray:
    """The bits of float32 as int32."""
    return np.asarray(x, np.float32).view(np.int32)


def from_bits(x: np.ndarray) -> Image:
    """float32 of the last 32 bits of integers."""
    return (np.asarray(x, np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.float32)


def exponent_field(x: Image) -> np.ndarray:
    """The exponent field."""
    return bits(x).astype(np.int64) >> 23 & 255


def with_exponent(x: Number, field: np.ndarray) -> Image:
    """`x` with the last 8 bits of `field` as its exponent field."""
    return from_bits(np.asarray(x, np.float32).view(np.uint32).astype(np.int64) & ~INF | (field & 255) << 23)


def is_negative(x: Image) -> np.ndarray:
    """Whether the sign is set, of 0 and NaN too."""
    return np.signbit(x)


def size(x: Image) -> Image:
    """|x|; a NaN keeps its sign (SFPABS)."""
    return np.where(np.isnan(x), x, np.abs(x))


def _order(x: Number) -> np.ndarray:
    pattern = integer_bits(x)
    return np.where(pattern < 0, pattern ^ np.int32(SIZE), pattern)


def larger(a: Image, b: Number) -> Image:
    """The larger of two in the order of their bits: NaN is above Inf, -NaN below -Inf."""
    return np.where(_order(a) >= _order(b), a, b)


def smaller(a: Image, b: Number) -> Image:
    """The smaller of two in the order of their bits."""
    return np.where(_order(a) <= _order(b), a, b)


def above(a: Number, b: Number) -> np.ndarray:
    """Whether a is above b in the order of their bits."""
    return _order(a) > _order(b)
