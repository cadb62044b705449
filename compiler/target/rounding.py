"""Quantisers: float32 arrays to the float32 image of what a device format keeps of them, vectorised.

Facts: tenstorrent/tt-isa-documentation, WormholeB0 (FloatBitPatterns.md, Packers/FormatConversion.md,
UNPACR_Regular.md). Unpacking to the source registers truncates (Float32 -> TF32 drops 13 bits). Packing rounds to
nearest, ties away from zero; what it rounds loses denormals (to 0), the sign of zero, and NaN (to Inf). A value that
is already in the format is kept as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opscope.compiler.target.formats import FORMATS, NumberFormat

Image = NDArray[np.float32]
_EXPONENT = np.uint32(0x7F800000)
_SIGN = np.uint32(0x80000000)


def bits(x: Image) -> NDArray[np.uint32]:
    """The bit patterns of `x` (a view where `x` is contiguous, else of a copy)."""
    return np.ascontiguousarray(x, dtype=np.float32).reshape(np.shape(x)).view(np.uint32)


def keep_bits(x: Image, mask: int) -> Image:
    """`x` with only the bits of `mask`: truncation of the mantissa, as the multiplier's phases read operands."""
    return (bits(x) & np.uint32(mask)).view(np.float32)


def flush(x: Image) -> Image:
    """`x` with denormals and -0 as +0; the same array where it has none."""
    pattern = bits(x)
    tiny = (pattern & _EXPONENT) == 0
    dirty = tiny & (pattern != 0)
    if not dirty.any():
        return x
    return np.where(dirty, np.float32(0), x)


def to_tf32(x: Image) -> Image:
    """TF32 by truncation of 13 bits, denormals to 0: what the unpacker makes of Float32 in SrcA and SrcB."""
    return keep_bits(flush(x), 0xFFFFE000)


def to_mantissa(x: Image, mantissa: int, mode: str = "away") -> Image:
    """`x` with `mantissa` fraction bits; `mode` is `away` (ties away from zero), `even` or `truncate`.

    Zeros and denormals become +0 and NaN becomes Inf of its sign, as in the packer.
    """
    drop = 23 - mantissa
    source = bits(x)
    keep = np.uint32((0xFFFFFFFF << drop) & 0xFFFFFFFF)
    if mode == "truncate":
        out = source & keep
    elif mode == "away":
        out = source + np.uint32(1 << (drop - 1))
        out &= keep
    elif mode == "even":
        out = source + np.uint32((1 << (drop - 1)) - 1) + ((source >> np.uint32(drop)) & np.uint32(1))
        out &= keep
    else:
        raise ValueError(f"rounding mode: expected away, even or truncate, got {mode!r}")
    special = (source & _EXPONENT) == _EXPONENT
    if special.any():
        out = np.where(special, (source & _SIGN) | _EXPONENT, out)
    tiny = (source & _EXPONENT) == 0
    if tiny.any():
        # A denormal that rounds up to the smallest normal is still a denormal to the packer.
        out = np.where(tiny, np.uint32(0), out)
    return out.view(np.float32)


def to_bf16(x: Image, mode: str = "away") -> Image:
    """bfloat16 (`Float16_b`) image of `x`."""
    return to_mantissa(x, 7, mode)


def to_fp16(x: Image, mode: str = "away") -> Image:
    """`Float16` image of `x`: 10 fraction bits, normals from 2^-14; larger than 65504 becomes Inf.

    The device's own pattern for overflow is 0x7FFF, which it reads as its largest number; the image says Inf.
    """
    out = to_mantissa(x, 10, mode)
    size = np.abs(out)
    out = np.where(size > np.float32(65504.0), np.copysign(np.float32(np.inf), out), out)
    return np.where(size < np.float32(2.0**-14), np.float32(0), out)


def to_block(x: Image, magnitude: int, exponent_bits: int = 8) -> Image:
    """Block float: 16 datums in a row of the last dim share the largest exponent, `magnitude` bits each.

    As the packer does it: truncated to bfloat16, rounded (ties away) to the 7 bits of BFP8 under the shared exponent;
    BFP4 and BFP2 are that, truncated. A magnitude that would round up to 2^7 saturates at 127. Exponents of 5 bits
    (the `a` formats) reach 2^-14 to 2^16.
    """
    shape = np.shape(x)
    cols = shape[-1] if shape else 1
    flat = np.ascontiguousarray(x, dtype=np.float32).reshape(-1, cols)
    pad = -cols % 16
    if pad:
        flat = np.pad(flat, ((0, 0), (0, pad)))
    source = to_mantissa(flat, 7, "truncate").reshape(flat.shape[0], -1, 16)
    exponent = ((bits(source) & _EXPONENT) >> np.uint32(23)).astype(np.int32)
    shared = exponent.max(axis=-1, keepdims=True)
    top = 142 if exponent_bits == 5 else 254
    if exponent_bits == 5:
        source = np.where(shared < 113, np.float32(0), source)
    # One unit of a 7-bit magnitude is 2^(shared - 127 - 6).
    unit = np.clip(shared, 1, top) - 127 - 6
    finite = np.where(np.isinf(source), np.copysign(np.float32(3.4e38), source), source)
    steps = np.floor(np.ldexp(np.abs(finite), -unit) + np.float32(0.5))
    steps = np.minimum(steps, np.float32(127))
    if magnitude < 7:
        drop = np.float32(2 ** (7 - magnitude))
        steps = np.floor(steps / drop) * drop
    # float64: ldexp to the device's smallest numbers must not pass through float32's denormals twice.
    out = flush(np.copysign(np.ldexp(steps, unit), finite).astype(np.float32) + np.float32(0))
    return out.reshape(flat.shape)[:, :cols].reshape(shape)


def quantise(x: Image, number_format: str | NumberFormat, mode: str = "away") -> Image:
    """The float32 image of `x` packed to a float format. Raises ValueError for an integer format."""
    fmt = FORMATS[number_format] if isinstance(number_format, str) else number_format
    if fmt.name == "Float32":
        return flush(x)
    if fmt.name == "Tf32":
        return to_mantissa(x, 10, mode)
    if fmt.name == "Float16_b":
        return to_bf16(x, mode)
    if fmt.name == "Float16":
        return to_fp16(x, mode)
    if fmt.kind == "block":
        return to_block(x, fmt.mantissa_bits, fmt.exponent_bits)
    raise ValueError(f"quantise: expected a float format, got {fmt.name}")
