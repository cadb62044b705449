"""The vector unit's approximate functions (`math_approx`): lines by segment of |x|, and exp by the exponent field.

Tables are those that tt-llk and tt-budabackend load (ckernel_sfpu_{tanh,sigmoid,gelu,exp}.h): for Grayskull three lines
of SFPLUT, for Wormhole and Blackhole six of SFPLUTFP32 where they have them. What is not in a table here is computed
as without `math_approx`: the kernels' other approximations are iterations whose bits public text does not settle.
Largest absolute errors (of exp: relative) are in `BOUND`, and held by tests. The multiplication and addition of a
line are one rounding here (SFPMAD's partial fusion differs by at most one unit in the last place of float32).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opscope.compiler.target.rounding import bits

Function = Callable[[np.ndarray], np.ndarray]

SIX = (0.5, 1.0, 1.5, 2.0, 3.0)
"""Where SFPLUTFP32's first five segments of six end, in the mode that both functions use (TABLE1). A comment of
sigmoid's table says 4 in place of 3; the instruction's mode decides."""
THREE = (1.0, 2.0)


def lut8(byte: int) -> float:
    """A coefficient of SFPLUT: sign, 3 bits of -exponent, 4 of mantissa; 0xFF is 0 (SFPLUT.md)."""
    if byte == 0xFF:
        return 0.0
    size = 2.0 ** -((byte >> 4) & 7) * (1 + (byte & 15) / 16)
    return -size if byte >> 7 else size


def lut16(half: int) -> float:
    """A coefficient of SFPLUTFP32: FP16 without denormals, where exponent 31 is 0 (SFPLUTFP32.md)."""
    exponent = (half >> 10) & 31
    size = 0.0 if exponent == 31 else 2.0 ** (exponent - 15) * (1 + (half & 1023) / 1024)
    return -size if half >> 15 else size


def _three(*words: int) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Breaks, slopes and offsets of SFPLUT's three registers."""
    return THREE, tuple(lut8(w >> 8) for w in words), tuple(lut8(w & 0xFF) for w in words)


def _six(*words: int) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Breaks, slopes and offsets of SFPLUTFP32's six registers: three of slopes, three of offsets, low half first."""
    halves = [lut16(part) for w in words for part in (w & 0xFFFF, w >> 16)]
    return SIX, tuple(halves[:6]), tuple(halves[6:])


TANH = _three(0x1DFF, 0x481A, 0xFF00)
SIGMOID_3, GELU_3 = _three(0x3DFF, 0x21D8, 0xFF10), _three(0x18FF, 0x212C, 0xFF00)
SIGMOID_6 = _six(0x32F433D9, 0x300A318A, 0x7C002A35, 0x23C89018, 0x30272BAA, 0x37FF34CC)
GELU_6 = _six(0x37E7322B, 0x38E138F3, 0x38003852, 0xB12286D8, 0xB437B479, 0x7C00AFA4)


def _lines(x: np.ndarray, table: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]) -> np.ndarray:
    """slope |x| + offset, by segment of |x|."""
    breaks, slopes, offsets = table
    size = np.abs(x)
    part = np.searchsorted(np.asarray(breaks, np.float32), size, side="right")
    return (np.asarray(slopes)[part] * size + np.asarray(offsets)[part]).astype(np.float32)


def _tanh(x: np.ndarray) -> np.ndarray:
    return np.copysign(_lines(x, TANH), x)


def _sigmoid(table: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]) -> Function:
    return lambda x: np.copysign(_lines(x, table), x) + np.float32(0.5)


def _gelu_6(x: np.ndarray) -> np.ndarray:
    """x / 2 and a line that does not know the sign: gelu(x) - x / 2 is even."""
    return np.float32(0.5) * x + _lines(x, GELU_6)


def _gelu_3(x: np.ndarray) -> np.ndarray:
    """x / 2 times (1 + a line with the sign of x), which stands for erf(x / sqrt(2))."""
    return np.float32(0.5) * x * (np.float32(1) + np.copysign(_lines(x, GELU_3), x))


def _exp(x: np.ndarray) -> np.ndarray:
    """Schraudolph's exponential with 3 bits of fraction: x / ln 2 as fixed point, shifted into the exponent field."""
    # 0x4340 as bfloat16 is 192: 1.5 * 2^7, whose last 16 bits of mantissa are fractions of 2^-16.
    fixed = (x * np.float32(1.442695) + np.float32(192.0)).astype(np.float32)
    shifted = ((bits(fixed).astype(np.int64) + (0xBD3F0000 - (1 << 32))) << 7) & 0xFFFFFFFF
    out = shifted.astype(np.uint32).view(np.float32)
    out = np.where(x < np.float32(-42), np.float32(0), out)
    return np.where(x >= np.float32(89), np.float32(np.inf), np.where(np.isnan(x), x, out))


BY_ARCH: dict[str, dict[str, Function]] = {
    "grayskull": {"exp": _exp, "tanh": _tanh, "sigmoid": _sigmoid(SIGMOID_3), "gelu": _gelu_3},
    "wormhole_b0": {"exp": _exp, "tanh": _tanh, "sigmoid": _sigmoid(SIGMOID_6), "gelu": _gelu_6},
    "blackhole": {"exp": _exp, "tanh": _tanh, "sigmoid": _sigmoid(SIGMOID_6), "gelu": _gelu_6},
}
"""Functions with an approximate mode, by architecture and kernel."""


BOUND: dict[tuple[str, str], float] = {
    ("grayskull", "tanh"): 0.145,
    ("wormhole_b0", "tanh"): 0.145,
    ("blackhole", "tanh"): 0.145,
    ("grayskull", "sigmoid"): 0.12,
    ("wormhole_b0", "sigmoid"): 0.048,
    ("blackhole", "sigmoid"): 0.048,
    ("grayskull", "gelu"): 0.046,
    ("wormhole_b0", "gelu"): 0.024,
    ("blackhole", "gelu"): 0.024,
    ("grayskull", "exp"): 0.063,
    ("wormhole_b0", "exp"): 0.063,
    ("blackhole", "exp"): 0.063,
}
"""Largest absolute error by architecture and kernel; of exp the largest relative one, from -42 to 44. Beyond 44.3, up
to the 89 from which it gives Inf, the fixed-point number overflows and the result is far too small."""


def approximation(name: str, arch: str) -> Function | None:
    """The approximate function of a kernel; None if it has none."""
    return BY_ARCH.get(arch, {}).get(name)
