"""Draws operands of sparse products: tiles with one 1 in each row, and the encoding that says which tile lies where.

The encoding is tt-budabackend's (verif/verif_sparse.cpp, hlks/inc/matmul_ident.h): strips of `u_kt` tiles of the inner
dimension, in each the micro blocks with a tile that is not 0, in each those tiles. 16-bit words, lowest byte first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from opscope.compiler.buda.test_config.rows import Row, attributes_of, shape_of
from opscope.compiler.errors import CompilerInputError

TILE = 32
LAST_IN_ROW, LAST_IN_TILE = 1 << 30, 1 << 31
WORD, STRIP_WORDS = 16, 3
"""Bits of a word; words before the blocks of a strip: its index and flags in two, the number of its blocks in one."""


@dataclass
class Strip:
    """`u_kt` tiles of the inner dimension."""

    index: int
    blocks: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    """Micro block -> (its tile that is not 0, place of it within the block)."""
    last_in_row: bool = False

    @property
    def words(self) -> int:
        """Words of its encoding."""
        return STRIP_WORDS + sum(1 + len(tiles) for _, tiles in self.blocks)


@dataclass(frozen=True)
class Identity:
    """The sizes of a sparse product."""

    rows: int
    """Rows of cores, each with tiles and an encoding of its own."""
    t: int
    act_t: int
    m_k: int
    u_kt: int
    mblock_m: int
    ublock_rt: int
    sparse_tiles: int
    index_tiles: int
    tile_bits: int
    block_bits: int

    @classmethod
    def of(cls, op: Row) -> Identity:
        """Reads the sizes from an op. Raises CompilerInputError for an attribute that is missing."""
        a = attributes_of(op)
        try:
            tile_bits = int(a["sparse_tile_ptr_bits"])
            block_bits = int(a.get("sparse_ublock_idx_bits") or 0)
            return cls(
                op["grid_size"][0],
                op["t"],
                int(op.get("act_t") or a.get("act_t") or op["t"]),
                int(a["m_k"]),
                int(a["u_kt"]),
                op["mblock"][0],
                op["ublock"][0],
                int(a["num_sparse_tiles"]),
                int(a["num_index_tiles"]),
                tile_bits,
                block_bits if block_bits > 0 else tile_bits,
            )
        except KeyError as missing:
            raise CompilerInputError(f"attributes: expected {missing} of a matmul with identity, got none") from missing

    @property
    def place_bits(self) -> int:
        """Bits of a tile's place within its micro block."""
        return WORD - self.tile_bits

    @property
    def inner_bits(self) -> int:
        """Bits of the place along the inner dimension, within a micro block."""
        return max(1, (self.u_kt - 1).bit_length())


def sparse_tiles(row: Row, draw: np.random.Generator) -> np.ndarray:
    """Returns tiles that have exactly one 1 in each row."""
    z, rows, cols = shape_of(row)
    at = draw.integers(0, TILE, (z, rows, cols // TILE))
    tiles = np.arange(TILE) == at[..., None]
    return tiles.reshape(z, rows, cols).astype(np.float64)


def encoding_tiles(row: Row, rule: Row, op: Row, draw: np.random.Generator) -> np.ndarray:
    """Returns the encoding as 32-bit numbers, tile by tile, row by row in each."""
    sizes = Identity.of(op)
    words_in_tile = int(rule["enc_tile_byte_size"]) // 2
    counted = str(rule["type"]).lower() == "sparse_encoding_nz_counts"
    tiles = []
    for _ in range(sizes.rows):
        strips = _counted(sizes, rule) if counted else _drawn(sizes, rule, draw)
        own = list(_packed(strips, sizes, words_in_tile))
        if len(own) > sizes.index_tiles:
            raise CompilerInputError(
                f"attributes.num_index_tiles: expected {len(own)} tiles for the encoding, got {sizes.index_tiles}"
            )
        own += [np.zeros(TILE * TILE, np.uint32)] * (sizes.index_tiles - len(own))
        tiles += own
    z, rows, cols = shape_of(row)
    if z * rows * cols != len(tiles) * TILE * TILE:
        raise CompilerInputError(
            f"test-config.stimulus-config: expected {len(tiles)} encoded tiles, got a queue of {z}x{rows}x{cols}"
        )
    whole = np.stack(tiles).reshape(z, rows // TILE, cols // TILE, TILE, TILE)
    return whole.transpose(0, 1, 3, 2, 4).reshape(z, rows, cols).astype(np.float64)


def _drawn(sizes: Identity, rule: Row, draw: np.random.Generator) -> list[Strip]:
    """Strips, blocks and tiles that are not 0 by the frequencies of zeros; each strip and each block has one tile."""
    frequencies = [float(rule.get(f"zero_{part}_freq", 0.0)) for part in ("strip", "ublock", "tile")]
    width = -(-sizes.m_k // sizes.t)
    strips: list[Strip] = []
    last, tile = -1, 0
    for t in range(sizes.t):
        own: list[Strip] = []
        for index in range(max(last, 0), min(sizes.m_k, (t + 1) * width)):
            if draw.random() <= frequencies[0]:
                continue
            strip = Strip(index if sizes.act_t == 1 else sizes.m_k * t + index)
            kept = int(draw.integers(sizes.mblock_m))
            for block in range(sizes.mblock_m):
                if block != kept and draw.random() <= frequencies[1]:
                    continue
                one = int(draw.integers(sizes.ublock_rt * sizes.u_kt))
                places = [
                    place
                    for place in range(sizes.ublock_rt * sizes.u_kt)
                    if place == one or draw.random() > frequencies[2]
                ]
                filled = []
                for place in places:
                    tile = (tile + 1) % sizes.sparse_tiles
                    filled.append((tile, _place(sizes, *divmod(place, sizes.u_kt))))
                strip.blocks.append((block, filled))
            own.append(strip)
            last = index
        if not own:
            own.append(
                Strip(strips[-1].index if strips and sizes.act_t == 1 else (0 if sizes.act_t == 1 else sizes.m_k * t))
            )
        own[-1].last_in_row = True
        strips += own
    return strips


def _counted(sizes: Identity, rule: Row) -> list[Strip]:
    """Strips with so many blocks and tiles that are not 0 in all, evenly distributed."""
    counts = [int(rule[key]) for key in ("nz_strips", "nz_ublocks", "nz_tiles")]
    most = (sizes.m_k + sizes.t - 1, counts[0] * sizes.mblock_m, counts[1] * sizes.ublock_rt * sizes.u_kt)
    for key, count, least, top in zip(
        ("nz_strips", "nz_ublocks", "nz_tiles"), counts, (sizes.t, *counts), most, strict=False
    ):
        if not least <= count <= top:
            raise CompilerInputError(f"test-config.stimulus-config.{key}: expected {least} to {top}, got {count}")
    per_t = _shares(counts[0], sizes.t)
    per_strip, per_block = iter(_shares(counts[1], counts[0])), iter(_shares(counts[2], counts[1]))
    strips: list[Strip] = []
    at, tile = 0, 0
    for t, count in enumerate(per_t):
        start = min(at, sizes.m_k - count)
        for index in range(start, start + count):
            strip = Strip(index if sizes.act_t == 1 else sizes.m_k * t + index)
            for block in range(next(per_strip)):
                filled = []
                for place in range(next(per_block)):
                    tile = (tile + 1) % sizes.sparse_tiles
                    filled.append((tile, _place(sizes, *divmod(place, sizes.u_kt))))
                strip.blocks.append((block, filled))
            strips.append(strip)
        strips[-1].last_in_row = True
        at = start + count
    return strips


def _shares(count: int, parts: int) -> list[int]:
    return [count // parts + (part < count % parts) for part in range(parts)]


def _place(sizes: Identity, row: int, inner: int) -> int:
    return row << sizes.inner_bits | inner


def _packed(strips: list[Strip], sizes: Identity, words_in_tile: int) -> Iterator[np.ndarray]:
    """Yields the encoding tile by tile; a strip lies in one tile."""
    batch: list[Strip] = []
    for strip in strips:
        if strip.words > words_in_tile:
            raise CompilerInputError(
                f"test-config.stimulus-config: expected strips of at most {words_in_tile} words, got {strip.words}; "
                "try larger frequencies of zeros"
            )
        if sum(other.words for other in (*batch, strip)) > words_in_tile:
            yield _tile(batch, sizes)
            batch = []
        batch.append(strip)
    yield _tile(batch, sizes)


def _tile(strips: list[Strip], sizes: Identity) -> np.ndarray:
    words: list[int] = []
    for strip in strips:
        head = strip.index | LAST_IN_ROW * strip.last_in_row | LAST_IN_TILE * (strip is strips[-1])
        words += [head & 0xFFFF, head >> WORD, len(strip.blocks)]
        for block, tiles in strip.blocks:
            # As many tiles as the bits cannot say are written as 0.
            count = len(tiles) % (1 << (WORD - sizes.block_bits))
            words.append(count << sizes.block_bits | block)
            words += [tile << sizes.place_bits | place for tile, place in tiles]
    packed = np.zeros(2 * TILE * TILE, np.uint16)
    packed[: len(words)] = words
    return packed.view(np.uint32)
