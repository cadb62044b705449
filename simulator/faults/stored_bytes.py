"""Which bytes of a tensor lie where in a bank, and what a tensor is worth once a bit of them is inverted.

A buffer's pages (a tile, or a row of a row-major tensor) are dealt to the banks as `compiler/target/allocation.py`
counts them: interleaved ones in turn, page n in bank n % banks; sharded ones by the rectangle of tiles of each core,
row by row. A page begins at the next multiple of the memory's alignment. The bytes of a tile are those of
`compiler/target/tiles.py`; those of a row-major row are its datums one after another, integers in two's complement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opscope.compiler.target.allocation import pages_of, tile_matrix
from opscope.compiler.target.formats import FORMATS, TILE, NumberFormat
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.system_desc import Profile
from opscope.compiler.target.tiles import (
    HEADER_BYTES,
    TileError,
    TileLayout,
    decode_floats,
    encode_floats,
    from_tiles,
    layout_of,
    to_tiles,
)


@dataclass(frozen=True)
class PageByte:
    """One byte of a tensor: its page and the byte's number in it."""

    page: int
    byte: int


@dataclass(frozen=True)
class Inverted:
    """A tensor with one bit inverted."""

    image: np.ndarray
    """A fresh array."""
    elements: tuple[tuple[int, ...], ...]
    """Indices of the elements that are worth something else now."""
    before: np.ndarray
    after: np.ndarray
    """Their values."""


class NotHeldError(ValueError):
    """A bit that the simulator has no value for: padding, a header, a value without bytes. The text says which."""


def byte_at(desc: TensorDesc, profile: Profile, bank: int, offset: int) -> PageByte | None:
    """The byte of a tensor `offset` bytes after its address in a bank (a DRAM channel, or a core row by row).

    None where the bank has no byte of it: past its pages, or in the gap that aligns the next one.
    """
    pages, size = pages_of(desc, profile)
    in_dram = desc.buffer_type == "dram"
    align = profile.dram_alignment if in_dram else profile.l1_alignment
    slot, byte = divmod(offset, -(-size // align) * align)
    if byte >= size:
        return None
    if in_dram or desc.memory_layout == "interleaved" or desc.layout != "tile":
        page = slot * (profile.dram_channels if in_dram else profile.cores) + bank
        return PageByte(page, byte) if page < pages else None
    page = _shard_page(desc, profile, bank, slot)
    return None if page is None else PageByte(page, byte)


def _shard_page(desc: TensorDesc, profile: Profile, core: int, slot: int) -> int | None:
    """The page of a sharded tensor in a slot of a core; None if the core has no such slot."""
    rows, columns = tile_matrix(desc.shape)
    down, across = (max(n, 1) for n in desc.grid)
    if down <= profile.grid[0] and across <= profile.grid[1]:
        row, column = divmod(core, profile.grid[1])
    else:  # a long row or column of shards goes through the grid core by core
        row, column = divmod(core, across)
    if row >= down or column >= across:
        return None
    height, width = -(-rows // down), -(-columns // across)
    own_rows = min(height, rows - row * height)
    own_columns = min(width, columns - column * width)
    if own_rows <= 0 or own_columns <= 0 or slot >= own_rows * own_columns:
        return None
    r, c = divmod(slot, own_columns)
    return (row * height + r) * columns + column * width + c


def inverted(image: np.ndarray, desc: TensorDesc, profile: Profile, where: PageByte, bit: int) -> Inverted:
    """The tensor once bit `bit` (0 to 7) of one of its bytes is inverted. Raises NotHeldError."""
    fmt = FORMATS[desc.data_format]
    matrix = np.array(image).reshape(_as_matrices(image.shape))
    if desc.layout == "tile":
        rows, columns = -(-matrix.shape[1] // TILE), -(-matrix.shape[2] // TILE)
        lead, rest = divmod(where.page, rows * columns)
        row, column = divmod(rest, columns)
        part = (
            slice(lead, lead + 1),
            slice(row * TILE, (row + 1) * TILE),
            slice(column * TILE, (column + 1) * TILE),
        )
        old, new = _tile_values(matrix[part], fmt, layout_of(profile), where.byte, bit)
    else:
        lead, row = divmod(where.page, matrix.shape[1])
        part = (slice(lead, lead + 1), slice(row, row + 1), slice(None))
        old, new = _row_values(matrix[part], fmt, where.byte, bit)
    changed = _differs(old, new)
    if not changed.any():
        raise NotHeldError("padding of a tile, which the simulator holds as zeros")
    before = matrix[part][changed]
    matrix[part][changed] = new[changed].astype(matrix.dtype, copy=False)
    starts = [s.start or 0 for s in part]
    flat = np.ravel_multi_index(tuple(np.nonzero(changed)[d] + starts[d] for d in range(3)), matrix.shape)
    places = np.unravel_index(flat, image.shape) if image.shape else ()
    elements = tuple(tuple(int(i) for i in index) for index in zip(*places, strict=True)) if image.shape else ((),)
    return Inverted(matrix.reshape(image.shape), elements, before, matrix[part][changed])


def _as_matrices(shape: tuple[int, ...]) -> tuple[int, int, int]:
    rows, columns = (shape[-2] if len(shape) > 1 else 1), (shape[-1] if shape else 1)
    return int(np.prod(shape[:-2], dtype=np.int64)) if len(shape) > 2 else 1, rows, columns


def _differs(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Where two images differ in a bit: 0 from -0, one NaN from another."""
    width = f"u{old.dtype.itemsize}"
    return np.ascontiguousarray(old).view(width) != np.ascontiguousarray(new).view(width)


def _tile_values(
    tile: np.ndarray, fmt: NumberFormat, layout: TileLayout, byte: int, bit: int
) -> tuple[np.ndarray, np.ndarray]:
    """A tile's values as its bytes say them, without and with the bit inverted."""
    if layout.header and byte < HEADER_BYTES:
        raise NotHeldError("the header of a tile, which the simulator does not read")
    try:
        data = to_tiles(tile, fmt, layout)
        return from_tiles(data, tile.shape, fmt, layout), from_tiles(_flip(data, byte, bit), tile.shape, fmt, layout)
    except TileError as error:
        raise NotHeldError(f"a tile whose values have no bytes in {fmt.name}: {error}") from error


def _row_values(row: np.ndarray, fmt: NumberFormat, byte: int, bit: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for a row of a row-major tensor."""
    datum = f"<u{fmt.bits // 8}"
    if fmt.kind == "float":
        try:
            codes = encode_floats(row.astype(np.float32), fmt).astype(datum)
        except TileError as error:
            raise NotHeldError(f"a row whose values have no bytes in {fmt.name}: {error}") from error
        other = np.frombuffer(_flip(codes.tobytes(), byte, bit), datum).reshape(codes.shape)
        return decode_floats(codes, fmt).reshape(row.shape), decode_floats(other, fmt).reshape(row.shape)
    data = np.ascontiguousarray(row).astype(datum, casting="unsafe").tobytes()
    wide = fmt.image if fmt.kind == "uint" else np.dtype(f"i{fmt.bits // 8}")
    old, new = (np.frombuffer(d, wide).astype(row.dtype).reshape(row.shape) for d in (data, _flip(data, byte, bit)))
    return old, new


def _flip(data: bytes, byte: int, bit: int) -> bytes:
    return data[:byte] + bytes([data[byte] ^ (1 << bit)]) + data[byte + 1 :]
