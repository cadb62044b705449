"""Quantisers: float32 arrays to the float32 image of what a format keeps of them, vectorised.

Three places round, each in its own way, and each has its function here:

- the host, when it makes tiles of an array: `host_rounded` (nearest, ties to even; block formats: ties away);
- the packer, when a result leaves Dst: `quantise` (nearest, ties away; FP8 and the last bits of BFP4 and BFP2 are cut);
- the SFPU, when it stores a value into a Dst of 16 bits: `sfpu_stored` (truncation).

What a format cannot hold: denormals become 0 everywhere. Where the packer rounds, -0 becomes +0 and NaN becomes Inf
of its sign; a value that is already in the format is kept. Float formats with fewer than 8 exponent bits have neither
Inf nor NaN: their highest exponent is a binade like the others. In an image, Inf stands for their largest pattern
(all ones), which overflow gives, and which the vector unit may read as infinity (SFPLOAD's option, taken here); the
matrix unit reads it as the number that it spells (`as_number`). NaN stands for a host's NaN that was only moved.

Facts: tenstorrent/tt-isa-documentation, WormholeB0 (FloatBitPatterns.md, Packers/FormatConversion.md,
UNPACR_Regular.md, SFPSTORE.md, SFPSTOCHRND_FloatFloat.md); the host's rounding: tt-metal's float8.cpp, tt-budabackend.
Not settled by public text, and so bounded here by one unit of the format: inputs between 2^-15 and 2^-14 on their way
to 5 exponent bits ("mishandled", here 0), and all of `Fp8_e4m3`'s packing, which follows FP8's rules for 4 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opscope.base import passes
from opscope.compiler.target.formats import FORMATS, NumberFormat
from opscope.compiler.target.rare_values import has_special, has_tiny, once

Image = NDArray[np.float32]
_EXPONENT = np.uint32(0x7F800000)
_SIGN = np.uint32(0x80000000)
_ALL = 0xFFFFFFFF
_SMALLEST_HALF = 0x0080
"""Bit pattern of bfloat16's smallest normal number."""
TURNED = 64 << 20
"""Bytes above which a transposed matrix keeps its order in memory: a copy in the other order takes longer than a
product with it. Below, the copy is cheap, and BLAS adds up products with a vector in the order of such a copy."""
MODES = ("away", "even", "truncate", "stochastic")
"""Nearest with ties away from zero, nearest with ties to even, towards zero, and by random bits."""


def bits(x: Image) -> NDArray[np.uint32]:
    """The bit patterns of `x` (a view where `x` is contiguous, else of a copy)."""
    if isinstance(x, np.ndarray) and x.dtype == np.float32 and x.flags.c_contiguous:
        return x.view(np.uint32)
    return np.ascontiguousarray(x, dtype=np.float32).reshape(np.shape(x)).view(np.uint32)


def keep_bits(x: Image, mask: int) -> Image:
    """`x` with only the bits of `mask`: truncation of the mantissa, as the multiplier's phases read operands."""
    return (bits(x) & np.uint32(mask)).view(np.float32)


def kept(x: Image, mask: int) -> Image:
    """`x` with only the bits of `mask`, denormals and -0 as +0, as the unpacker reads it; perhaps the same array."""
    if x.nbytes > TURNED and not x.flags.c_contiguous and (turned := x.swapaxes(-1, -2)).flags.c_contiguous:
        return kept(turned, mask).swapaxes(-1, -2)
    if passes.compiled is None or not x.flags.c_contiguous or x.dtype != np.float32:
        return keep_bits(flush(x), mask)
    if not passes.compiled.changes(x, mask):
        return x
    out = np.empty(x.shape, np.float32)
    passes.compiled.keep(x, mask, out)
    return out


def flush(x: Image) -> Image:
    """`x` with denormals and -0 as +0; the same array where it has none."""
    if passes.compiled is not None and x.flags.c_contiguous and x.dtype == np.float32:
        return kept(x, _ALL)
    return _flushed(x, lambda part: np.where((bits(part) & _EXPONENT) == 0, np.float32(0), part))


def flush_keeping_sign(x: Image) -> Image:
    """`x` with denormals as zeros of their sign (Blackhole's vector unit); the same array where it has none."""
    return _flushed(x, lambda part: np.where((bits(part) & _EXPONENT) == 0, np.copysign(np.float32(0), part), part))


def _flushed(x: Image, zeros_of: Callable[[Image], Image]) -> Image:
    """`x`, or `zeros_of` what it repeats where that has denormals or -0."""
    core = once(x)
    if not has_tiny(bits(core)):
        return x
    flushed = zeros_of(core)
    return flushed if flushed.shape == np.shape(x) else np.broadcast_to(flushed, np.shape(x))


def to_tf32(x: Image) -> Image:
    """TF32 by truncation of 13 bits, denormals to 0: what the unpacker makes of Float32 in SrcA and SrcB."""
    return kept(x, 0xFFFFE000)


def to_mantissa(x: Image, mantissa: int, mode: str = "away", random: np.random.Generator | None = None) -> Image:
    """`x` with `mantissa` fraction bits, rounded by one of `MODES`.

    Zeros and denormals become +0 and NaN becomes Inf of its sign, as in the packer. `stochastic` needs `random` and
    has the hardware's bias: it compares the cut bits with random ones by >=, so that even exact values go up now and
    then (once in 2^cut bits). The random bits are NumPy's, not the hardware's.
    """
    if mode not in MODES:
        raise ValueError(f"rounding mode: expected {', '.join(MODES)}, got {mode!r}")
    if mode == "stochastic" and random is None:
        raise ValueError(f"rounding mode {mode}: expected a generator of random bits, got none")
    source = bits(x)
    if passes.compiled is not None and mode != "stochastic" and mantissa < 23:
        rounded = np.empty(source.shape, np.float32)
        passes.compiled.round_floats(source, 23 - mantissa, mode, rounded)
        return rounded
    out = np.asarray(_cut(source, 23 - mantissa, mode, random))
    if has_special(source):
        special = (source & _EXPONENT) == _EXPONENT
        out[special] = (source[special] & _SIGN) | _EXPONENT
    if mode == "stochastic" or has_tiny(source):
        # A denormal that rounds up to the smallest normal is still a denormal to the packer.
        out *= (source & _EXPONENT) != 0  # faster than to pick the elements
    return out.view(np.float32)


def _cut(source: NDArray[np.uint32], drop: int, mode: str, random: np.random.Generator | None) -> NDArray[np.uint32]:
    """Bit patterns without their last `drop` bits, rounded by one of `MODES`."""
    keep, half = np.uint32((0xFFFFFFFF << drop) & 0xFFFFFFFF), np.uint32(1 << (drop - 1))
    if mode == "truncate":
        return source & keep
    if mode == "stochastic" and random is not None:
        threshold = random.integers(0, 1 << drop, source.shape, dtype=np.uint32)
        return (source & keep) + np.where((source & ~keep) >= threshold, np.uint32(1 << drop), np.uint32(0))
    # From here on in place: for large arrays, each new one costs more than the arithmetic.
    if mode == "away":
        out = source + half
    else:
        out = source >> np.uint32(drop)
        out &= np.uint32(1)
        out += half - np.uint32(1)
        out += source
    out &= keep
    return out


def to_halves(x: Image, mode: str = "away") -> NDArray[np.uint16]:
    """The 16 bits of each element of `to_mantissa(x, 7, mode)`, where `mode` is `away` or `truncate`."""
    source = bits(x)
    if passes.compiled is not None:
        out = np.empty(source.shape, np.uint16)
        passes.compiled.narrow(source, mode, out)
        return out
    rounded = source if mode == "truncate" else source + np.uint32(0x8000)
    out = np.empty(source.shape, np.uint16)
    np.right_shift(rounded, np.uint32(16), out=out, casting="unsafe")
    if has_special(source):
        special = (source & _EXPONENT) == _EXPONENT
        out[special] = ((source[special] & _SIGN) | _EXPONENT) >> np.uint32(16)
    # The largest denormals round up to the smallest normal number, and are denormals all the same.
    if has_tiny(out, _SMALLEST_HALF + 1):
        out *= (source & _EXPONENT) != 0  # faster than to pick the elements
    return out


def largest(number_format: NumberFormat) -> float:
    """The number that the largest pattern of a float format spells: all ones, 131008 in `Float16`.

    For formats with 8 exponent bits it is the largest finite number.
    """
    exponent, mantissa = number_format.exponent_bits, number_format.mantissa_bits
    top = (1 << exponent) - 1 - ((1 << (exponent - 1)) - 1) - (exponent == 8)
    return (2 - 2.0**-mantissa) * 2.0**top


def _narrow(x: Image, fmt: NumberFormat, mode: str, random: np.random.Generator | None = None) -> Image:
    """Image in a float format with fewer than 8 exponent bits: overflow becomes Inf, what is too small +0.

    Inf stands for the pattern of all ones, so that the largest number below it is the largest finite one.
    """
    out = to_mantissa(x, fmt.mantissa_bits, mode, random)
    size = np.abs(out)
    smallest = 2.0 ** (2 - (1 << (fmt.exponent_bits - 1)))
    out = np.where(size >= np.float32(largest(fmt)), np.copysign(np.float32(np.inf), out), out)
    return np.where(size < np.float32(smallest), np.float32(0), out)


def to_block(
    x: Image, magnitude: int, exponent_bits: int = 8, mode: str = "away", random: np.random.Generator | None = None
) -> Image:
    """Block float: 16 datums in a row of the last dim share the largest exponent, `magnitude` bits each.

    As the packer does it: truncated to bfloat16, rounded (ties away, or `stochastic`) to the 7 bits of BFP8 under the
    shared exponent; BFP4 and BFP2 are that, truncated. A magnitude that would round up to 2^7 saturates at 127.
    Exponents of 5 bits (the `a` formats) reach from 2^-14 to 2^16. Of 8 bits 255 is one like others: Inf is 2^128, and
    numbers above it are patterns of NaN (ttsim 1.10.0). A magnitude of 0 has no sign: with one its pattern
    would read as -Inf (FloatBitPatterns.md); public text does not say that the packer clears it, numbers demand it.
    """
    source, unit = _shared_units(x, exponent_bits, truncate_to=7)
    steps = np.ldexp(np.abs(source), -unit)
    steps = np.minimum(np.floor(steps + _half(steps.shape, mode, random)), np.float32(127))
    if magnitude < 7:
        drop = np.float32(2 ** (7 - magnitude))
        steps = np.floor(steps / drop) * drop
    return _unshared(steps, unit, source, np.shape(x))


def block_product(x: Image) -> Image:
    """What the packer reads in Dst of a product of block floats: cut to bfloat16 and rounded to 6 bits of fraction.

    `to_block` then rounds a second time, under the shared exponent.
    """
    return to_mantissa(to_mantissa(np.asarray(x, np.float32), 7, "truncate"), 6)


def _half(shape: tuple[int, ...], mode: str, random: np.random.Generator | None) -> Image | np.float32:
    """What is added before the fraction is cut."""
    if mode == "stochastic" and random is not None:
        return np.float32(1) - random.integers(0, 1 << 23, shape).astype(np.float32) * np.float32(2.0**-23)
    return np.float32(0 if mode == "truncate" else 0.5)


def _host_block(x: Image, fmt: NumberFormat) -> Image:
    """Block float as the host makes it: the full mantissa rounded once, ties away, saturating."""
    source, unit = _shared_units(x, fmt.exponent_bits)
    unit = unit + 7 - fmt.mantissa_bits
    steps = np.floor(np.ldexp(np.abs(source).astype(np.float64), -unit) + 0.5)
    return _unshared(np.minimum(steps, 2.0**fmt.mantissa_bits - 1), unit, source, np.shape(x))


def _shared_units(x: Image, exponent_bits: int, truncate_to: int | None = None) -> tuple[Image, NDArray[np.int32]]:
    """The datums in groups of 16, all of them numbers, and log2 of one unit of a 7-bit magnitude in each group."""
    shape = np.shape(x)
    cols = shape[-1] if shape else 1
    flat = np.ascontiguousarray(x, dtype=np.float32).reshape(-1, cols)
    pad = -cols % 16
    if pad:
        flat = np.pad(flat, ((0, 0), (0, pad)))
    source = flush(flat) if truncate_to is None else to_mantissa(flat, truncate_to, "truncate")
    source = source.reshape(flat.shape[0], -1, 16)
    exponent = ((bits(source) & _EXPONENT) >> np.uint32(23)).astype(np.int32)
    if exponent_bits == 5:
        source = np.where(exponent < 113, np.float32(0), source)
        exponent = np.where(exponent < 113, 0, exponent)
    shared = exponent.max(axis=-1, keepdims=True)
    has_255 = exponent_bits == 8 and truncate_to is not None
    unit = np.clip(shared, 1, 143 if exponent_bits == 5 else 255 if has_255 else 254) - 127 - 6
    if np.isfinite(source).all():
        return source, unit
    if has_255:
        return as_number(source, "Float16_b"), unit
    return np.where(np.isfinite(source), source, np.copysign(np.float32(3.4e38), source)), unit


def _unshared(steps: np.ndarray, unit: NDArray[np.int32], source: Image, shape: tuple[int, ...]) -> Image:
    """The numbers of magnitudes `steps`, with the signs of `source`, in `shape` without the filling."""
    value = np.copysign(np.ldexp(steps, unit), source)
    out = flush((of_number(value) if value.dtype == np.float64 else value).astype(np.float32) + np.float32(0))
    cols = shape[-1] if shape else 1
    return out.reshape(out.shape[0], -1)[:, :cols].reshape(shape)


def quantise(
    x: Image, number_format: str | NumberFormat, mode: str = "away", random: np.random.Generator | None = None
) -> Image:
    """The float32 image of `x` packed to a float format. Raises ValueError for an integer format.

    FP8 is only reached by the packer's late conversion, which cuts the mantissa whatever `mode` says.
    """
    fmt = FORMATS[number_format] if isinstance(number_format, str) else number_format
    if fmt.name == "Float32":
        return flush(x)
    if fmt.kind == "block":
        return to_block(x, fmt.mantissa_bits, fmt.exponent_bits, mode, random)
    if fmt.kind != "float":
        raise ValueError(f"quantise: expected a float format, got {fmt.name}")
    if fmt.exponent_bits == 8:
        return to_mantissa(x, fmt.mantissa_bits, mode, random)
    return _narrow(x, fmt, "truncate" if fmt.bits == 8 else mode, random)


def host_rounded(x: Image, number_format: str | NumberFormat) -> Image:
    """The float32 image of `x` as the host stores it in a float format: nearest, ties to even; NaN and Inf are kept.

    Block formats: nearest, ties away, from the full mantissa (tt-budabackend). Other floats are what NumPy and
    ml_dtypes give, less the denormals; `Fp8_e4m3` saturates, at 448 (tt-metal's float8.cpp does so at 240, because it
    reads exponent 15 as NaN; f8E4M3FN has numbers there). Raises ValueError for an integer format.
    """
    fmt = FORMATS[number_format] if isinstance(number_format, str) else number_format
    if fmt.name == "Float32":
        return np.asarray(x, np.float32)
    if fmt.kind == "block":
        return _host_block(x, fmt)
    if fmt.kind != "float":
        raise ValueError(f"host_rounded: expected a float format, got {fmt.name}")
    out = to_mantissa(x, fmt.mantissa_bits, "even")
    if fmt.exponent_bits < 8:
        smallest = 2.0 ** (2 - (1 << (fmt.exponent_bits - 1)))
        out = np.where(np.abs(out) < np.float32(smallest), np.float32(0), out)
        if fmt.exponent_bits == 4:
            out = np.where(np.isinf(x), x, np.clip(out, np.float32(-448), np.float32(448)))
        else:
            out = np.where(np.abs(out) >= np.float32(65536), np.copysign(np.float32(np.inf), out), out)
    return np.where(np.isnan(x), x, out)


def sfpu_stored(x: Image, dst_format: str) -> Image:
    """The float32 image of `x` as SFPSTORE leaves it in Dst: 16 bits by truncation, denormals as zeros of their sign.

    NaN and Inf become `Float16`'s largest pattern; in `Float16_b` a NaN whose 7 highest bits are 0 becomes Inf.
    """
    if dst_format == "Float32":
        return np.asarray(x, np.float32)
    kept = keep_bits(
        flush_keeping_sign(np.asarray(x, np.float32)), 0xFFFF0000 if dst_format == "Float16_b" else 0xFFFFE000
    )
    if dst_format == "Float16_b":
        return kept
    size = np.abs(kept)
    kept = np.where(size < np.float32(2.0**-14), np.copysign(np.float32(0), kept), kept)
    return np.where(~(size < np.float32(131008.0)), np.copysign(np.float32(np.inf), kept), kept)


def as_number(x: Image, number_format: str | NumberFormat) -> np.ndarray:
    """`x` as the matrix unit reads it, which knows neither Inf nor NaN: float64, since 2^128 is no float32.

    With 8 exponent bits, exponent 255 is the binade from 2^128; with fewer, Inf in an image is the pattern of all
    ones, and NaN a moved one of the highest binade (FloatBitPatterns.md).
    """
    fmt = FORMATS[number_format] if isinstance(number_format, str) else number_format
    wide = np.asarray(x, np.float64)
    special = ~np.isfinite(wide)
    if not special.any():
        return wide
    mantissa = (bits(x) & np.uint32(0x7FFFFF)).astype(np.float64) * 2.0**-23
    if fmt.exponent_bits == 8 or fmt.kind != "float":
        value = (1 + mantissa) * 2.0**128
    else:
        binade = 2.0 ** ((1 << fmt.exponent_bits) - 1 - ((1 << (fmt.exponent_bits - 1)) - 1))
        value = np.where(np.isinf(wide), largest(fmt), (1 + mantissa) * binade)
    return np.where(special, np.where(np.signbit(wide), -value, value), wide)


def of_number(x: np.ndarray) -> Image:
    """The float32 image of numbers below 2^129 for which exponent 255 is one like others."""
    large = np.abs(x) >= 2.0**128
    pattern = bits(np.where(large, x * 0.5, x).astype(np.float32))
    return (pattern + (large.astype(np.uint32) << np.uint32(23))).view(np.float32)
