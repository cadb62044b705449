"""A tensor as the bytes that the device holds, and back: tiles of faces, shared exponents, packed magnitudes.

A tile is up to 32x32 datums. Its faces of 16x16 (of fewer rows in a tile of fewer) follow each other row by row, each
face row-major. In memory: a header if the profile has one (16 bytes, the first word the tile's size in units of 16
bytes), for block formats one exponent byte per 16 datums, filled up to 16 bytes, then the datums, the first in the
lowest bits, then zeros up to the alignment. Signed integers have a sign and a magnitude. A tensor's last two dims are
filled up with zeros to whole tiles, which follow each other row by row.

Bits by tenstorrent/tt-isa-documentation, WormholeB0 (FloatBitPatterns.md, UNPACR_Regular.md,
Packers/FormatConversion.md); headers and padding by tt-budabackend. Whether the header's size counts header and
padding is not said in public; here it does. `-2^31` and `-128` have no pattern: they are stored one higher.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.formats import FACE, FORMATS, TILE, NumberFormat
from opscope.compiler.target.rounding import Image, bits, largest
from opscope.compiler.target.system_desc import Profile

TILE_DIMS = ((32, 32), (16, 32), (32, 16), (16, 16), (8, 32), (4, 32), (2, 32), (1, 32), (4, 16))
"""Rows and columns that a tile may have (tt-buda's `tile_dim`, tt-mlir's tile sizes)."""
HEADER_BYTES = 16


class TileError(ValueError):
    """Bytes or values that are no tiles of this format; `<where>: expected X, got Y; try Z`."""


@dataclass(frozen=True)
class TileLayout:
    """How tiles lie in memory."""

    dims: tuple[int, int] = (TILE, TILE)
    """Rows and columns of one tile."""
    header: bool = False
    alignment: int = 16
    """Tiles with a header are filled up to a multiple of so many bytes."""

    def __post_init__(self) -> None:
        if self.dims not in TILE_DIMS:
            known = ", ".join(f"{r}x{c}" for r, c in TILE_DIMS)
            raise TileError(f"tile: expected a size of {known}, got {self.dims[0]}x{self.dims[1]}")


def layout_of(profile: Profile) -> TileLayout:
    """The layout of tiles in one world: TT-Buda's have headers and are multiples of 32 bytes, TTNN's are bare."""
    return TileLayout((TILE, TILE), header=profile.tile_header_bytes > 0, alignment=32)


def tile_size(number_format: str | NumberFormat, layout: TileLayout = TileLayout()) -> int:
    """Bytes of one tile in memory. Raises TileError for a format that no device holds."""
    fmt = _device_format(number_format)
    datums = math.prod(layout.dims)
    size = -(-datums * fmt.bits // 8) + _exponent_bytes(fmt, datums)
    if layout.header:
        size = -(-(size + HEADER_BYTES) // layout.alignment) * layout.alignment
    return size


def to_tiles(image: np.ndarray, number_format: str | NumberFormat, layout: TileLayout = TileLayout()) -> bytes:
    """The bytes of an image (float32 for floats, the integer itself) whose values are already in the format.

    Raises TileError for values that are not: `quantise` or `host_rounded` first.
    """
    fmt = _device_format(number_format)
    faces = _faces(np.asarray(image), layout.dims)
    data, exponents = _encode(faces.reshape(-1), fmt, math.prod(layout.dims))
    count = len(faces)
    body = np.concatenate([exponents.reshape(count, -1), data.reshape(count, -1)], axis=1)
    size = tile_size(fmt, layout)
    head = HEADER_BYTES if layout.header else 0
    out = np.zeros((count, size), np.uint8)
    if head:
        out[:, :4] = np.frombuffer(struct.pack("<I", size // 16), np.uint8)
    out[:, head : head + body.shape[1]] = body
    return out.tobytes()


def from_tiles(
    data: bytes, shape: tuple[int, ...], number_format: str | NumberFormat, layout: TileLayout = TileLayout()
) -> np.ndarray:
    """The image of a tensor of `shape` in tiles. Raises TileError for another number of bytes, or a wrong header."""
    fmt = _device_format(number_format)
    lead, rows, cols = _tile_counts(shape, layout.dims)
    count, size = lead * rows * cols, tile_size(fmt, layout)
    if len(data) != count * size:
        raise TileError(f"tiles: expected {count} tiles of {size} bytes of {fmt.name}, got {len(data)} bytes")
    tiles = np.frombuffer(data, np.uint8).reshape(count, size)
    if layout.header:
        said = tiles[:, :4].copy().view("<u4")[:, 0]
        if (said != size // 16).any():
            wrong = int(np.flatnonzero(said != size // 16)[0])
            raise TileError(f"tile {wrong}: expected a header that says {size // 16}, got {int(said[wrong])}")
        tiles = tiles[:, HEADER_BYTES:]
    datums = math.prod(layout.dims)
    split = _exponent_bytes(fmt, datums)
    values = _decode(tiles[:, split : split + -(-datums * fmt.bits // 8)], tiles[:, :split], fmt, datums)
    return _unfaced(values.reshape(count, datums), shape, layout.dims)


def _device_format(number_format: str | NumberFormat) -> NumberFormat:
    fmt = FORMATS[number_format] if isinstance(number_format, str) else number_format
    if not fmt.on_device:
        raise TileError(f"tile: expected a format of the device, got {fmt.name}")
    return fmt


def _exponent_bytes(fmt: NumberFormat, datums: int) -> int:
    return -(-datums // 16 // 16) * 16 if fmt.kind == "block" else 0


def _tile_counts(shape: tuple[int, ...], dims: tuple[int, int]) -> tuple[int, int, int]:
    """Number of matrices, and rows and columns of tiles of each; a vector is one row."""
    rows = shape[-2] if len(shape) > 1 else 1
    cols = shape[-1] if shape else 1
    return math.prod(shape[:-2]), -(-rows // dims[0]), -(-cols // dims[1])


def _faces(image: np.ndarray, dims: tuple[int, int]) -> np.ndarray:
    """The datums of each tile in the order of memory: (tiles, rows * columns of a tile)."""
    lead, rows, cols = _tile_counts(image.shape, dims)
    height = image.shape[-2] if image.ndim > 1 else 1
    width = image.shape[-1] if image.ndim else 1
    padded = np.zeros((lead, rows * dims[0], cols * dims[1]), image.dtype)
    padded[:, :height, :width] = image.reshape(lead, height, width)
    face = min(dims[0], FACE)
    split = padded.reshape(lead, rows, dims[0] // face, face, cols, dims[1] // FACE, FACE)
    return np.ascontiguousarray(split.transpose(0, 1, 4, 2, 5, 3, 6)).reshape(lead * rows * cols, -1)


def _unfaced(values: np.ndarray, shape: tuple[int, ...], dims: tuple[int, int]) -> np.ndarray:
    """The inverse of `_faces`, without the filling."""
    lead, rows, cols = _tile_counts(shape, dims)
    face = min(dims[0], FACE)
    split = values.reshape(lead, rows, cols, dims[0] // face, dims[1] // FACE, face, FACE)
    padded = split.transpose(0, 1, 3, 5, 2, 4, 6).reshape(lead, rows * dims[0], cols * dims[1])
    height = shape[-2] if len(shape) > 1 else 1
    width = shape[-1] if shape else 1
    return np.ascontiguousarray(padded[:, :height, :width]).reshape(shape)


def _encode(values: np.ndarray, fmt: NumberFormat, datums: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of the datums, and of the exponents (none without blocks), tile after tile."""
    none = np.zeros((len(values) // datums, 0), np.uint8)
    if fmt.kind == "block":
        codes, exponents = encode_blocks(values.astype(np.float32).reshape(-1, 16), fmt)
        per_tile = exponents.reshape(-1, datums // 16)
        filled = np.zeros((len(per_tile), _exponent_bytes(fmt, datums)), np.uint8)
        filled[:, : per_tile.shape[1]] = per_tile
        return _packed(codes.reshape(-1), fmt.bits), filled
    codes = encode_floats(values.astype(np.float32), fmt) if fmt.kind == "float" else _encode_integers(values, fmt)
    return codes.astype(f"<u{fmt.bits // 8}").view(np.uint8), none


def _decode(data: np.ndarray, exponents: np.ndarray, fmt: NumberFormat, datums: int) -> np.ndarray:
    if fmt.kind == "block":
        codes = _unpacked(np.ascontiguousarray(data).reshape(-1), fmt.bits)
        return decode_blocks(codes.reshape(-1, 16), exponents[:, : datums // 16].reshape(-1), fmt)
    codes = np.ascontiguousarray(data).view(f"<u{fmt.bits // 8}").reshape(-1)
    return decode_floats(codes, fmt) if fmt.kind == "float" else _decode_integers(codes, fmt)


def encode_floats(values: Image, fmt: NumberFormat) -> np.ndarray:
    """The patterns of floats, as uint32. Inf is the pattern of all ones where the format has no infinity.

    Raises TileError for values that the format does not have.
    """
    pattern = bits(values)
    if fmt.exponent_bits == 8:
        drop = np.uint32(32 - fmt.bits)
        if (pattern & np.uint32((1 << (32 - fmt.bits)) - 1)).any():
            raise TileError(f"tiles: expected values of {fmt.name}, got others; try quantise or host_rounded")
        return pattern >> drop
    sign = (pattern >> np.uint32(31)) << np.uint32(fmt.bits - 1)
    size, bias = np.abs(values).astype(np.float64), (1 << (fmt.exponent_bits - 1)) - 1
    fraction, exponent = np.frexp(np.where(np.isfinite(size), size, 0))
    normal = (exponent - 1 > -bias) & (fraction > 0)
    # Below the smallest normal the field is 0 and the step is that of the smallest normals.
    scaled = np.where(
        normal,
        (np.ldexp(fraction, 1) - 1) * 2.0**fmt.mantissa_bits + (exponent - 1 + bias) * 2.0**fmt.mantissa_bits,
        size * 2.0 ** (bias - 1 + fmt.mantissa_bits),
    )
    top = (1 << (fmt.bits - 1)) - 1
    scaled = np.where(
        np.isinf(size), top, np.where(np.isnan(size), top & ~(1 << (fmt.mantissa_bits - 1)) & top, scaled)
    )
    codes = scaled.astype(np.uint32)
    if (codes != scaled).any() or (codes > top).any():
        raise TileError(f"tiles: expected values of {fmt.name}, got others; try quantise or host_rounded")
    return sign | codes


def decode_floats(codes: np.ndarray, fmt: NumberFormat) -> Image:
    """The image of patterns of a float format. The highest exponent of narrow formats is a binade like the others."""
    wide = codes.astype(np.uint32)
    if fmt.exponent_bits == 8:
        return (wide << np.uint32(32 - fmt.bits)).view(np.float32)
    magnitude = wide & np.uint32((1 << (fmt.bits - 1)) - 1)
    field = (magnitude >> np.uint32(fmt.mantissa_bits)).astype(np.int32)
    mantissa = (magnitude & np.uint32((1 << fmt.mantissa_bits) - 1)).astype(np.float64) * 2.0**-fmt.mantissa_bits
    bias = (1 << (fmt.exponent_bits - 1)) - 1
    value = np.ldexp(mantissa + (field > 0), np.maximum(field, 1) - bias)
    value = np.where(value == largest(fmt), np.inf, value)
    return np.where(wide >> np.uint32(fmt.bits - 1) != 0, -value, value).astype(np.float32)


def encode_blocks(groups: Image, fmt: NumberFormat) -> tuple[np.ndarray, np.ndarray]:
    """Sign and magnitude of groups of 16 (n, 16) as uint8, and the shared exponent of each (n,) as it is stored.

    -Inf is a sign without magnitude. Raises TileError for values that do not fit a common exponent.
    """
    width = fmt.mantissa_bits
    size = np.where(np.isfinite(groups), np.abs(groups), np.float32(0))
    exponent = ((bits(size) >> np.uint32(23)) & np.uint32(0xFF)).astype(np.int32).max(axis=1)
    steps = np.ldexp(size.astype(np.float64), (127 + width - 1) - exponent[:, None])
    sign = np.signbit(groups) & ((steps > 0) | np.isneginf(groups))
    stored = np.where(exponent > 0, exponent - 112, 0) if fmt.exponent_bits == 5 else exponent
    wrong = (steps != np.floor(steps)).any() or np.isnan(groups).any() or np.isposinf(groups).any()
    if wrong or (stored < 0).any() or (stored >= 1 << fmt.exponent_bits).any():
        raise TileError(f"tiles: expected values of {fmt.name}, got others; try quantise or host_rounded")
    return (sign.astype(np.uint8) << np.uint8(width)) | steps.astype(np.uint8), stored.astype(np.uint8)


def decode_blocks(codes: np.ndarray, exponents: np.ndarray, fmt: NumberFormat) -> Image:
    """The image (n, 16) of codes (n, 16) under shared exponents (n,), as the unpacker reads them.

    A sign without magnitude reads as -Inf, with 5 exponent bits as -2^16 (FloatBitPatterns.md). A magnitude without
    its leading bit lowers the exponent; where that falls below 0 the hardware's field wraps, here it does not.
    """
    width = fmt.mantissa_bits
    magnitude = (codes & np.uint8((1 << width) - 1)).astype(np.float64)
    negative = (codes >> np.uint8(width)) != 0
    bias = 15 if fmt.exponent_bits == 5 else 127
    value = np.ldexp(magnitude, exponents.astype(np.int32)[:, None] - bias - (width - 1))
    value = np.where(negative, -value, value)
    lone = -(2.0**16) if fmt.exponent_bits == 5 else -np.inf
    with np.errstate(over="ignore"):
        return np.where(negative & (magnitude == 0), lone, value).astype(np.float32)


def _packed(codes: np.ndarray, width: int) -> np.ndarray:
    """Codes of `width` bits, packed into bytes, the first in the lowest bits."""
    per_byte = 8 // width
    split = codes.reshape(-1, per_byte).astype(np.uint8)
    out = np.zeros(len(split), np.uint8)
    for place in range(per_byte):
        out |= split[:, place] << np.uint8(place * width)
    return out


def _unpacked(data: np.ndarray, width: int) -> np.ndarray:
    per_byte = 8 // width
    places = [(data >> np.uint8(place * width)) & np.uint8((1 << width) - 1) for place in range(per_byte)]
    return np.stack(places, axis=1).reshape(-1)


def _encode_integers(values: np.ndarray, fmt: NumberFormat) -> np.ndarray:
    wide = values.astype(np.int64)
    top = (1 << (fmt.bits - 1)) - 1 if fmt.kind == "int" else (1 << fmt.bits) - 1
    if (wide > top).any() or (wide < (-top - 1 if fmt.kind == "int" else 0)).any():
        raise TileError(f"tiles: expected integers of {fmt.name}, got others; try another format")
    if fmt.kind == "uint":
        return wide
    return np.where(wide < 0, (1 << (fmt.bits - 1)) | np.minimum(-wide, top), wide)


def _decode_integers(codes: np.ndarray, fmt: NumberFormat) -> np.ndarray:
    if fmt.kind == "uint":
        return codes.astype(fmt.image)
    sign = codes >> codes.dtype.type(fmt.bits - 1)
    magnitude = (codes & codes.dtype.type((1 << (fmt.bits - 1)) - 1)).astype(np.int64)
    return np.where(sign != 0, -magnitude, magnitude).astype(fmt.image)
