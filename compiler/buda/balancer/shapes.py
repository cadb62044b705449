"""The shapes that make up an op model: grids, streaming, blocks, buffers. All counts are tiles or blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from opscope.compiler.buda.graph import Node, TensorShape
from opscope.compiler.target.formats import number_format


@cache
def divisors(n: int) -> tuple[int, ...]:
    """Returns all divisors of `n`, ascending."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return (*low, *(n // d for d in reversed(low) if d * d != n))


def largest_divisor(n: int, limit: int) -> int:
    """Returns the largest divisor of `n` that is at most `limit`."""
    return max(d for d in divisors(n) if d <= max(1, limit))


def either_divides(a: int, b: int) -> bool:
    """Whether one of the two divides the other."""
    return a % b == 0 or b % a == 0


@dataclass(frozen=True, order=True)
class Grid:
    """Rows and columns of cores."""

    r: int
    c: int

    @property
    def volume(self) -> int:
        """Number of cores."""
        return self.r * self.c

    @property
    def perimeter(self) -> int:
        """Rows plus columns, as the policies compare grids."""
        return self.r + self.c

    def __str__(self) -> str:
        return f"{self.r}x{self.c}"


@dataclass(frozen=True)
class StreamFactor:
    """The way a tensor is cut in time: along `dir` (R, C, or RZ: rows, z outermost) into `r` x `c` pieces."""

    dir: str = "R"
    r: int = 1
    c: int = 1

    @property
    def t(self) -> int:
        """Number of pieces."""
        return self.r * self.c

    @property
    def none(self) -> bool:
        """Whether nothing is cut."""
        return self.t == 1

    @property
    def by_rows(self) -> bool:
        """Whether rows are cut."""
        return self.dir in ("R", "RZ")

    @property
    def z_major(self) -> bool:
        """Whether z is traversed inside each piece."""
        return self.dir == "RZ"

    def follows(self, ublock_order: str) -> bool:
        """Whether pieces come in the order of the ublocks."""
        return self.by_rows == (ublock_order == "r")

    @property
    def transposed(self) -> StreamFactor:
        """Returns the same cuts after a transpose."""
        turned = {"R": "C", "C": "R", "RZ": "CZ", "CZ": "RZ"}[self.dir]
        return StreamFactor(turned, self.c, self.r)


@dataclass(frozen=True)
class UBlock:
    """The micro block: the tiles that Dst holds at once."""

    rt: int
    ct: int

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.rt * self.ct


@dataclass(frozen=True)
class BlockShape:
    """One core's share: `t` macro blocks, each of `mblock_m` x `mblock_n` ublocks."""

    t: int
    mblock_m: int
    mblock_n: int
    ublock: UBlock

    @classmethod
    def of(cls, shape: TensorShape, grid: Grid, stream: StreamFactor, ublock: UBlock) -> BlockShape:
        """Returns the share of `shape` over a grid, cut in time."""
        return cls(
            shape.z * stream.t,
            shape.rt // (grid.r * stream.r) // ublock.rt,
            shape.ct // (grid.c * stream.c) // ublock.ct,
            ublock,
        )

    @property
    def ublocks(self) -> int:
        """Ublocks of one macro block."""
        return self.mblock_m * self.mblock_n

    @property
    def tiles(self) -> int:
        """Tiles of one macro block."""
        return self.ublocks * self.ublock.tiles

    @property
    def rt(self) -> int:
        """Rows of one macro block, in tiles."""
        return self.mblock_m * self.ublock.rt

    @property
    def ct(self) -> int:
        """Columns of one macro block, in tiles."""
        return self.mblock_n * self.ublock.ct


@dataclass(frozen=True)
class Cut:
    """An op as it is cut over cores and in time, with a core's part of its result."""

    node: Node
    grid: Grid
    stream: StreamFactor
    block: BlockShape


@dataclass(frozen=True)
class BufferModel:
    """A buffer in a core's L1; `held` is the tiles of one copy, a part of the block if the kernel needs no more."""

    block_shape: BlockShape
    held: int
    factor: int
    data_format: str

    @classmethod
    def whole(cls, block: BlockShape, factor: int, data_format: str) -> BufferModel:
        """Returns a buffer of `factor` whole macro blocks."""
        return cls(block, block.tiles, factor, data_format)

    @property
    def l1_size_tiles(self) -> int:
        """Tiles that the buffer takes in L1."""
        return self.held * self.factor

    @property
    def l1_bytes(self) -> int:
        """Bytes that the buffer takes in L1."""
        return self.l1_size_tiles * number_format(self.data_format).buda_tile_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of everything that passes through the buffer for one input, over all of `t`."""
        return self.block_shape.t * self.block_shape.tiles * number_format(self.data_format).buda_tile_bytes
