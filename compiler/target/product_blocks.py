"""How a matrix product that no plan places is cut: which core makes what of the result, and in which steps.

It is tt-metal's automatic choice (ttnn/cpp/ttnn/operations/matmul/device/config/matmul_program_config.cpp), whose
figures these are: blocks of 16 by 16 tiles, or less if L1 has no room for their buffers, say whether the result is laid
out on rows and columns of cores or along one line of them; then each core takes an equal part. A core makes its part in
blocks that fit its L1, each in steps along the inner dimension. Operands in L1, dealt over all cores, are cut as if
they were in DRAM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opscope.compiler.target.allocation import tensor_bytes
from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.program import MatmulParams, Numerics, TensorDesc
from opscope.compiler.target.system_desc import Profile

LARGEST = 16
"""Tiles along a side of the block by which the layout is chosen."""
FEW_STEPS = 2
"""Depth of a step, in tiles, along one line of cores."""
NARROW = 8
"""Sides of a result that differ by more than this factor are laid out along one line of cores."""
SUBBLOCKS = (
    (2, 4),
    (4, 2),
    (1, 8),
    (8, 1),
    (1, 7),
    (7, 1),
    (2, 3),
    (3, 2),
    (1, 6),
    (6, 1),
    (1, 5),
    (5, 1),
    (2, 2),
    (1, 4),
    (4, 1),
    (1, 3),
    (3, 1),
    (1, 2),
    (2, 1),
    (1, 1),
)
"""Rows and columns of tiles in Dst at a time, by preference; half as many fit where Dst has 32 bits."""

Line = Literal["", "left", "right"]


@dataclass(frozen=True)
class Sizes:
    """A product in tiles, and what its blocks take in L1."""

    rows: int
    columns: int
    depth: int
    left_bytes: int
    """Of a tile."""
    right_bytes: int
    partial_bytes: int
    room: int
    """Bytes of L1 that a core has for buffers."""
    dst_tiles: int

    def fits(self, rows: int, columns: int, step: int) -> bool:
        """Whether L1 has room for a block: operands twice, partial sums and the result."""
        operands = 2 * step * (rows * self.left_bytes + columns * self.right_bytes)
        return operands + rows * columns * (self.partial_bytes + self.left_bytes) < self.room

    def divisors(self, number: int) -> list[int]:
        """The divisors of a number of tiles that a side of a block can have, or a step: no more than L1 holds.

        A damaged binary may claim any size, and nobody can wait for all of its divisors.
        """
        most = max(0, self.room) // min(self.left_bytes, self.right_bytes)
        return [each for each in range(1, min(number, most) + 1) if number % each == 0]


@dataclass(frozen=True)
class ProductBlocks:
    """What each core makes; all sizes in tiles."""

    grid: tuple[int, int]
    """Rows and columns of cores at work."""
    line: Line
    """The operand that one core sends to all others; empty where each row and column of cores has its own sender."""
    rows: int
    columns: int
    """A core's part of the result."""
    block_rows: int
    block_columns: int
    """What it makes of that at a time."""
    step: int
    subblock: tuple[int, int]
    alone: bool = False
    """Whether each core makes whole products, and reads both operands for itself."""

    @property
    def blocks(self) -> int:
        """How many blocks a core makes."""
        return -(-self.rows // self.block_rows) * -(-self.columns // self.block_columns)


@dataclass(frozen=True)
class Product:
    """A matrix product, or several of one size that follow each other."""

    rows: int
    """Of the result, in tiles; so are the next two."""
    columns: int
    depth: int
    left: TensorDesc
    right: TensorDesc
    out: TensorDesc
    numerics: Numerics
    batches: int = 1

    def sizes(self, profile: Profile) -> Sizes:
        """One product's tiles, and what its blocks take in L1."""
        wide = self.numerics.dst_format in ("Float32", "Int32")
        resident = _shard_bytes(self.left, profile)  # the result's shard is the buffer that `fits` counts
        return Sizes(
            self.rows,
            self.columns,
            self.depth,
            FORMATS[self.left.data_format].tile_bytes,
            FORMATS[self.right.data_format].tile_bytes,
            FORMATS["Float32" if wide else "Float16_b"].tile_bytes,
            profile.l1_usable - resident,
            4 if wide else 8,
        )


def product_of(
    params: MatmulParams, left: TensorDesc, right: TensorDesc, out: TensorDesc, numerics: Numerics
) -> Product | None:
    """The product, or the products of pairs of matrices that cannot be one; None of vectors."""
    if min(len(desc.shape) for desc in (left, right, out)) < 2:
        return None
    depth = left.shape[-2] if params.transpose_a else left.shape[-1]
    batch = math.prod(out.shape[:-2])
    rows, columns, deep = (max(1, -(-size // TILE)) for size in (*out.shape[-2:], depth))
    if math.prod(right.shape[:-2]) > 1 or left.buffer_type == "l1":
        return Product(rows, columns, deep, left, right, out, numerics, batch)
    return Product(batch * rows, columns, deep, left, right, out, numerics)


def step_of(
    params: MatmulParams, left: TensorDesc, right: TensorDesc, out: TensorDesc, numerics: Numerics, profile: Profile
) -> int:
    """Returns the tiles of the inner dim that a core multiplies before it adds up in L1."""
    product = product_of(params, left, right, out, numerics)
    return 1 if product is None else cut(product, profile).step


def cut(product: Product, profile: Profile, cores: int = 0) -> ProductBlocks:
    """Returns the blocks of a product; `cores`: how many a card used, which tells its layout where that is close."""
    sizes = product.sizes(profile)
    if in_shards(product.out):
        return _in_place(sizes, product.left, product.out)
    chosen = _laid_out(sizes, _line(sizes, profile.grid), profile)
    lines: tuple[Line, ...] = ("left", "right", "") if cores and math.prod(chosen.grid) != cores else ()
    others = (_laid_out(sizes, line, profile) for line in lines)
    blocks = next((other for other in others if math.prod(other.grid) == cores), chosen)
    if product.batches > 1 and not blocks.line:
        return _alone(sizes, product.batches, cores or profile.cores)
    return blocks


def _alone(sizes: Sizes, batches: int, cores: int) -> ProductBlocks:
    """Returns the blocks of products of many pairs of matrices, none of them narrow: dealt to cores, as tt-metal's
    reuse without multicast does. No published profile has one: that it is the automatic choice is assumed. Steps of one
    tile are by the bits of ttnn 0.81.1's products of bfloat8 (docs/conformance.md).
    """
    high, wide, step = _fitting(sizes, min(sizes.rows, LARGEST), min(sizes.columns, LARGEST), 1, shrink=False)
    count = min(cores, batches * -(-sizes.rows // high) * -(-sizes.columns // wide))
    return ProductBlocks((count, 1), "", high, wide, high, wide, step, subblock_of(high, wide, sizes.dst_tiles), True)


def _laid_out(sizes: Sizes, line: Line, profile: Profile) -> ProductBlocks:
    if line == "left":
        return _cut(sizes, (1, profile.cores), line, _depth(sizes), shrink=False)
    if line == "right":
        return _cut(sizes, (profile.cores, 1), line, _depth(sizes), shrink=False)
    even = sizes.depth % profile.grid[1] == 0
    return _cut(sizes, profile.grid, "", sizes.depth // profile.grid[1] if even else 1, shrink=True)


def _depth(sizes: Sizes) -> int:
    return FEW_STEPS if sizes.depth % FEW_STEPS == 0 else 1


def _line(sizes: Sizes, grid: tuple[int, int]) -> Line:
    side = next((n for n in (LARGEST, LARGEST // 2, LARGEST // 4, 2) if sizes.fits(n, n, FEW_STEPS)), 1)
    down, across = -(-sizes.rows // side), -(-sizes.columns // side)
    fits_grid = (down, across) != (1, 1) and down <= grid[0] and across <= grid[1]
    longer, shorter = max(sizes.rows, sizes.columns), min(sizes.rows, sizes.columns)
    narrow = longer // shorter > NARROW or shorter == 1
    if (fits_grid and down == 1) or (narrow and sizes.columns > sizes.rows):
        return "left"
    return "right" if (fits_grid and across == 1) or narrow else ""


def _in_place(sizes: Sizes, left: TensorDesc, out: TensorDesc) -> ProductBlocks:
    """Blocks of a result whose shards say which core makes what. Steps are as deep as the left operand's shards, or as
    L1 has room for.
    """
    down, across = (min(n, tiles) for n, tiles in zip(out.grid, (sizes.rows, sizes.columns), strict=True))
    line: Line = "" if out.memory_layout == "block_sharded" else "left" if down == 1 else "right"
    deepest = max(1, sizes.depth // (left.grid[1] if in_shards(left) else across))
    rows, columns = -(-sizes.rows // down), -(-sizes.columns // across)
    steps = [step for step in sizes.divisors(deepest) if sizes.fits(rows, columns, step)]
    return ProductBlocks(
        (down, across),
        line,
        rows,
        columns,
        rows,
        columns,
        max(steps, default=1),
        subblock_of(rows, columns, sizes.dst_tiles, rows_at_a_time=1),
    )


def _cut(sizes: Sizes, grid: tuple[int, int], line: Line, step: int, *, shrink: bool) -> ProductBlocks:
    rows, columns = -(-sizes.rows // grid[0]), -(-sizes.columns // grid[1])
    block_rows, block_columns, step = _fitting(sizes, rows, columns, step, shrink=shrink)
    return ProductBlocks(
        (-(-sizes.rows // rows), -(-sizes.columns // columns)),
        line,
        rows,
        columns,
        block_rows,
        block_columns,
        step,
        subblock_of(block_rows, block_columns, sizes.dst_tiles),
    )


def _fitting(sizes: Sizes, rows: int, columns: int, step: int, *, shrink: bool) -> tuple[int, int, int]:
    """The largest block that fits, the squarest of equal ones; a shallower step only where no block fits."""
    largest_first = sorted(
        ((a, b) for a in sizes.divisors(rows) for b in sizes.divisors(columns)),
        key=lambda block: (-block[0] * block[1], max(block) / min(block)),
    )
    for depth in reversed(sizes.divisors(step)) if shrink else (step,):
        for block in largest_first:
            if sizes.fits(*block, depth):
                return *block, depth
    return 1, 1, 1


def subblock_of(rows: int, columns: int, most: int, rows_at_a_time: int = 0) -> tuple[int, int]:
    """Returns the rows and columns of tiles of a block that are in Dst at a time."""
    fitting: Iterator[tuple[int, int]] = (
        (high, across)
        for high, across in SUBBLOCKS
        if high * across <= most
        and rows % high == 0
        and columns % across == 0
        and (not rows_at_a_time or high == rows_at_a_time)
    )
    return next(fitting, (1, 1))


def in_shards(desc: TensorDesc) -> bool:
    """Whether each core has a part of a tensor in its L1."""
    return desc.buffer_type == "l1" and desc.memory_layout != "interleaved"


def _shard_bytes(desc: TensorDesc, profile: Profile) -> int:
    return math.ceil(tensor_bytes(desc, profile) / math.prod(desc.grid)) if in_shards(desc) else 0
