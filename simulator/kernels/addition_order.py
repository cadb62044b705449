"""The order in which the device adds: products in the matrix unit, with what it rounds on the way, and float32 sums on
the vector unit.

The unit goes through the inner dim in tiles of 32, in each phase by phase, 16 products at a time. These are two groups
of 8. In a group each product (5 bits of the right operand times 7 of the left one) is shifted to the largest exponent
of the eight and rounded to 10 bits of fraction, halves away from 0. The two sums and the register are shifted to the
largest of their exponents, to 23 bits of fraction, and rounded to the nearest (halves upwards, where the number is a
sum of products); a register of 16 bits first rounds each of the three to 10 bits. Their sum is rounded to the register.
Exponent 255 is a number like others, denormals are 0, and a result too large is Inf.

Sources: tt-isa-documentation (MVMUL.md, SrcASrcB.md); the alignment and its rounding by the public source of ttsim
1.10.0, Tenstorrent's simulator, whose results this gives bit for bit (docs/conformance.md). Of the unit's own fault, a
sum of -1 in the last place that Wormhole normalises wrongly, there is nothing here.

Where a product is made in blocks of the inner dim (ttnn: two tiles, one where their number is odd), the register starts
each block at 0; what the blocks before the last one give is added in L1, in the format of partial results, to the
nearest even; the last block is added to that sum in the register, or in L1 too where the unit adds a bias to what lies
there.

**Sums of float32.** Tiles of the reduced dim are added up first, one after another. In a row of the tile that is left,
places that lie 8 apart in their order of loads (even and odd columns of the left face, then of the right one) are
added, then those 4, 2 and 1 apart. In a column, every fourth row of a face is added, the two faces, then the four sums.
The order is that of ckernel_sfpu_reduce.h (tt-llk, Blackhole); recorded sums of ttnn 0.81.1 have its bits
(docs/conformance.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opscope.base import passes
from opscope.compiler.target.formats import FACE, FORMATS, TILE
from opscope.compiler.target.rounding import Image, bits, block_product, keep_bits, largest, quantise, to_mantissa

PHASES = {"LoFi": (0,), "HiFi2": (0, 1), "HiFi2_B": (0, 2), "HiFi3": (0, 1, 2), "HiFi4": (0, 1, 2, 3)}
"""Fidelity -> the phases that it takes. HiFi2_B has the number 10 in tt-budabackend (netlist/tt_backend_api_types.hpp):
two phases, in steps of two; its own tests ask it for all bits of a product's left operand
(verif/op_tests/netlists/netlist_fidelity_order_b_matmul.yaml)."""
GROUP = 8
"""Products that are aligned to one exponent."""
AT_ONCE = 2 * GROUP
"""Products that one instruction adds."""
_NONE = -4096
"""Exponent of a 0 among operands."""


@dataclass(frozen=True)
class Register:
    """The range and the precision of a format of Dst."""

    low: int
    """Exponents up to this one, as float32 counts them, are 0."""
    high: int
    """Exponents from this one on are too large."""
    drop: int
    """Bits of float32's fraction that it has not."""
    largest: int
    """Pattern of what is too large."""


REGISTERS = {
    "Float32": Register(0, 255, 0, 0x7F800000),
    "Float16_b": Register(0, 255, 16, 0x7F800000),
    "Float16": Register(112, 144, 13, 0x47FFE000),
}


def product(
    left: Image,
    right: Image,
    phases: tuple[int, ...],
    dst_format: str,
    k_block: int = 0,
    intermediate: str = "",
    *,
    all_in_l1: bool = False,
    onto: Image | None = None,
) -> Image:
    """left (..., M, K) times right (..., K, N); leading dims broadcast. `k_block`: tiles of a block, 0 for all;
    `all_in_l1`: the last block is added there too. `onto`: what is in the register.
    """
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    total = np.zeros((*lead, rows, columns), np.float32) if onto is None else onto.copy()
    if not depth or not total.size:
        return total
    if right.ndim == 2 and left.ndim > 2:  # one product of all rows
        rows_of_all = left.reshape(-1, depth)
        whole = None if onto is None else onto.reshape(-1, columns)
        flat = product(rows_of_all, right, phases, dst_format, k_block, intermediate, all_in_l1=all_in_l1, onto=whole)
        return flat.reshape(total.shape)
    left, right = np.broadcast_to(left, (*lead, rows, depth)), np.broadcast_to(right, (*lead, depth, columns))
    block = k_block * TILE or depth
    starts = range(0, depth, block)
    spills = k_block > 0 and FORMATS[intermediate].kind == "block"
    for index in np.ndindex(*lead):
        for start in starts:
            stop, is_last = min(start + block, depth), start == starts[-1] and not all_in_l1
            onto_it = is_last or spills
            part = total[index] if onto_it else np.zeros((rows, columns), np.float32)
            part = np.ascontiguousarray(part)
            a, b = (np.ascontiguousarray(x, np.float32) for x in (left[index][:, start:stop], right[index][start:stop]))
            add_products(a, b, phases, dst_format, part)
            if spills and start != starts[-1]:
                part = quantise(block_product(part), intermediate)
            total[index] = part if onto_it or not start else quantise(total[index] + part, intermediate, "even")
    if dst_format == "Float16":
        total[np.abs(total) >= np.float32(largest(FORMATS["Float16"]))] *= np.float32(np.inf)
    return total


def add_products(left: Image, right: Image, phases: tuple[int, ...], dst_format: str, dst: Image) -> None:
    """Adds the products of two matrices to what a register holds, in place."""
    if passes.compiled is not None:
        mask = sum(1 << phase for phase in phases)
        passes.compiled.add_products(left, right, left.shape[1], right.shape[1], mask, dst_format, dst)
        return
    register, pattern = REGISTERS[dst_format], bits(dst)
    depth = left.shape[1]
    pad = -depth % AT_ONCE
    of_left = _Parts.of(np.pad(left, ((0, 0), (0, pad))), high=4, low=(0, 15, 3))
    of_right = _Parts.of(np.pad(right, ((0, pad), (0, 0))), high=6, low=(1, 31, 0))
    for tile in range(0, depth, TILE):
        for phase in phases:
            for start in range(tile, min(tile + TILE, depth), AT_ONCE):
                sums = [
                    _group(of_left, of_right, slice(at, at + GROUP), phase, register.low)
                    for at in (start, start + GROUP)
                ]
                pattern = _added(sums, pattern, register)
    dst[...] = pattern.view(np.float32)


def column_products(factor: float, data: Image, phases: tuple[int, ...], dst_format: str) -> Image:
    """Sums of columns times a factor, as one row: face after face, in each phase after phase (GAPOOL)."""
    total = np.zeros((1, data.shape[1]), np.float32)
    for start in range(0, len(data), FACE):
        face = np.ascontiguousarray(data[start : start + FACE])
        for phase in phases:
            add_products(np.full((1, len(face)), factor, np.float32), face, (phase,), dst_format, total)
    return total


@dataclass(frozen=True)
class _Parts:
    """Operands taken apart: exponents, and the significands with their signs that first and later phases read."""

    exponent: np.ndarray
    significand: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, x: Image, high: int, low: tuple[int, int, int]) -> _Parts:
        """Takes `x` apart: `high` bits are cut for the first phase; `low`: shift, mask and shift of the others."""
        pattern = bits(x).astype(np.int64)
        field, value = pattern >> 23 & 255, pattern >> 13 & 0x3FF | 0x400
        sign = np.where(pattern >> 31, -1, 1) * (field != 0)
        right, mask, up = low
        later = ((value >> right & mask) << up) * sign
        return cls(np.where(field, field, _NONE), ((value >> high) * sign, later))


def _group(left: _Parts, right: _Parts, places: slice, phase: int, low: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponent and sum of eight products."""
    exponent = left.exponent[:, places, None] + right.exponent[None, places] - 127 - 5 * (phase & 1) - 7 * (phase >> 1)
    value = left.significand[phase >> 1][:, places, None] * right.significand[phase & 1][None, places]
    top = np.maximum(exponent.max(axis=1, initial=low), low)
    down = np.minimum(top[:, None] - exponent, 30)
    size = (2 * np.abs(value) + (1 << down)) >> down + 1
    total = np.where(value < 0, -size, size).sum(axis=1)
    return top, np.where(top > low, total, 0)


def _added(sums: list[tuple[np.ndarray, np.ndarray]], pattern: np.ndarray, register: Register) -> np.ndarray:
    """What a register holds after two sums are added to it."""
    wide = pattern.astype(np.int64)
    own = wide >> 23 & 255
    size = np.where(own > register.low, wide & 0x7FFFFF | 0x800000, 0)
    most = np.maximum(np.maximum(sums[0][0], sums[1][0]), own)
    cut = 0x1FFF if register.drop else 0
    total = np.zeros_like(wide)
    terms = [(exponent, np.abs(value) << 13, value < 0, True) for exponent, value in sums]
    for exponent, number, negative, is_sum in (*terms, (own, size, wide >> 31 == 1, False)):
        down = np.minimum(most - exponent, 30)
        upwards = negative & is_sum
        number = number + (1 << down >> 1) - (upwards & (down > 0)) >> down
        if cut:
            number = number + 0x1000 - upwards & ~cut
        total = total + np.where(negative, -number, number)
    whole = np.abs(total)
    leading = np.frexp(whole.astype(np.float64))[1] - 1
    exponent, right = most + leading - 23, leading - 23 + register.drop
    up, down = np.clip(-right, 0, 23), np.maximum(right, 0)
    value = (whole << up) + (1 << down >> 1) >> down << register.drop
    exponent = exponent + (value >> 24 & 1)
    sign = (total < 0).astype(np.int64) << 31
    result = np.where(exponent >= register.high, sign | register.largest, sign | exponent << 23 | value & 0x7FFFFF)
    return np.where((whole == 0) | (exponent <= register.low), 0, result).astype(np.uint32)


def row_sums(x: Image) -> Image:
    """Sums along the last dim."""
    tile = _tiles_added(x)
    faces = tile.reshape(*tile.shape[:-1], 2, FACE // 2, 2)
    total = _nested([faces[..., face, :, odd] for face in (0, 1) for odd in (0, 1)])
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., half:] + total[..., :half]
    return total[..., 0]


def column_sums(x: Image) -> Image:
    """Sums along the last dim, added as those along a column of a tile are."""
    tile = _tiles_added(x)
    rows = tile.reshape(*tile.shape[:-1], 2, 4, 4)
    faces = _nested([rows[..., group, :] for group in range(4)])
    both = faces[..., 0, :] + faces[..., 1, :]
    return _nested([both[..., group] for group in range(4)])


def _tiles_added(x: Image) -> Image:
    """The last dim as one tile of 32, filled with 0."""
    pad = -x.shape[-1] % TILE
    filled = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)]) if pad else x
    tiles = filled.reshape(*x.shape[:-1], -1, TILE)
    if tiles.shape[-2] == 0:
        return np.zeros((*x.shape[:-1], TILE), np.float32)
    total = tiles[..., 0, :]
    for number in range(1, tiles.shape[-2]):
        total = total + tiles[..., number, :]
    return total


def _nested(parts: Sequence[Image]) -> Image:
    """The first plus the sum of the rest, which are added in the same way."""
    total = parts[-1]
    for part in parts[-2::-1]:
        total = part + total
    return total


def elementwise_product(a: Image, b: Image, phases: tuple[int, ...], dst_format: str) -> Image:
    """Products of `a` in SrcA and `b` in SrcB, which broadcast, phase after phase (ELWMUL).

    In 32 bits all phases of a product have room, so that their sum is one product, unless one alone is too small.
    """
    a, b = (np.ascontiguousarray(x, np.float32) for x in np.broadcast_arrays(a, b))
    if dst_format != "Float32" or len(phases) < 4:
        return _phase_by_phase(a, b, phases, dst_format)
    with np.errstate(all="ignore"):
        result = keep_bits(a, 0xFFFFC000) * keep_bits(b, 0xFFFFE000)
    rare = ~((np.abs(result) > SMALL) & np.isfinite(result))
    if rare.any():
        result[rare] = _phase_by_phase(a[rare], b[rare], phases, dst_format)
    return result


SMALL = 2.0**-100
"""Above it, no phase of a product is a denormal."""


def _phase_by_phase(a: Image, b: Image, phases: tuple[int, ...], dst_format: str) -> Image:
    register = REGISTERS[dst_format]
    left, right = _Parts.of(b, high=4, low=(0, 15, 3)), _Parts.of(a, high=6, low=(1, 31, 0))
    pattern = np.zeros(a.shape, np.uint32)
    none = np.full(a.shape, register.low), np.zeros(a.shape, np.int64)
    for phase in phases:
        exponent = left.exponent + right.exponent - 127 - 5 * (phase & 1) - 7 * (phase >> 1)
        value = left.significand[phase >> 1] * right.significand[phase & 1]
        top = np.maximum(exponent, register.low)
        pattern = _added([(top, np.where(top > register.low, value, 0)), none], pattern, register)
    return pattern.view(np.float32)


TF32, BFLOAT16 = 10, 7
"""Bits of their fractions."""


def read(x: Image, dst_format: str) -> Image:
    """What the unit reads of `x` in L1: TF32, bfloat16 where Dst has 16 bits."""
    kept = TF32 if dst_format == "Float32" else BFLOAT16
    return to_mantissa(np.ascontiguousarray(x, np.float32), kept, "truncate")


def in_dst(x: Image, dst_format: str, mode: str = "away") -> Image:
    """`x` once it is in Dst."""
    return x if dst_format == "Float32" else to_mantissa(np.ascontiguousarray(x, np.float32), BFLOAT16, mode)


def added(a: Image, b: Image, dst_format: str) -> Image:
    """a + b of what lies in L1: the smaller one is aligned to 10 bits below the first one of the larger."""
    return in_dst(aligned(np.add, *np.broadcast_arrays(read(a, dst_format), read(b, dst_format))), dst_format)


def aligned(function: Callable[..., np.ndarray], a: Image, b: Image) -> Image:
    """A sum or difference as the matrix unit makes it: the smaller operand is rounded to 10 bits below the larger's
    first one, halves away from 0, before they are added (ELWADD; the rounding by ttsim, as for products)."""
    wide = [np.asarray(x, np.float64) for x in (a, b)]
    with np.errstate(invalid="ignore"):
        exponent = np.frexp(np.maximum(*(np.abs(x) for x in wide)))[1] - 11
        total = function(*(np.ldexp(np.trunc(np.ldexp(x, -exponent) + np.copysign(0.5, x)), exponent) for x in wide))
    return overflowed(total)


def overflowed(total: np.ndarray) -> Image:
    """float64 sums as float32, Inf of their sign where they are too large: the matrix unit makes no NaN."""
    return np.where(np.abs(total) >= 2.0**128, np.copysign(np.inf, total), total).astype(np.float32)


def window_product(
    left: Image, right: Image, phases: tuple[int, ...], dst_format: str, result: str, align: int, dealt: int
) -> Image:
    """Windows (M, KH, KW, C) times weights (KH, KW, C, N), as ttnn's convolutions add: each pixel filled up to `align`
    channels, which are `dealt` to cores; of a row of a window each core's channels are filled to a tile, and after
    them the sum passes L1, where it has the format of the result, and is read again.
    """
    channels = (0, -left.shape[-1] % align)
    left, right = np.pad(left, (*[(0, 0)] * 3, channels)), np.pad(right, ((0, 0), (0, 0), channels, (0, 0)))
    total: Image | None = None
    for row, first in itertools.product(range(left.shape[1]), range(0, left.shape[-1], dealt)):
        pixels, weights = left[:, row, :, first : first + dealt], right[row, :, first : first + dealt]
        pixels, weights = pixels.reshape(len(left), -1), weights.reshape(-1, right.shape[-1])
        seen = None if total is None else read(quantise(total, result), dst_format)
        total = product(pixels, weights, phases, dst_format, onto=seen)
    return np.zeros((len(left), right.shape[-1]), np.float32) if total is None else total
