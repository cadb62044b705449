"""One core's share of an op, as counts of tiles: what decides its cycles.

Words are TT-Buda's: `t` macro blocks follow one another, each of mblock_m x mblock_n micro blocks (ublocks) of
ublock_rt x ublock_ct tiles; a product adds up m_k steps of u_kt tiles.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparseTiles:
    """Tiles of a sparse operand that are not zero, on one core and over all of t."""

    tiles: int
    ublocks: int
    """Blocks of ublock_rt x u_kt tiles with such a tile."""
    strips: int
    """Pairs of macro block and step along the inner dimension with such a tile."""


@dataclass(frozen=True)
class BlockWork:
    """One core's share of an op, for one input."""

    t: int = 1
    mblock_m: int = 1
    mblock_n: int = 1
    ublock_rt: int = 1
    ublock_ct: int = 1
    m_k: int = 1
    u_kt: int = 1
    phases: int = 1
    """Fidelity phases."""
    depth: int = 1
    """Matrices that a reduction along z adds up."""
    operands: int = 1
    bits: int = 16
    """Width of the widest datum among operands and result."""
    sparse: SparseTiles | None = None

    @property
    def ublocks(self) -> int:
        """Micro blocks of the result, over all of t."""
        return self.t * self.mblock_m * self.mblock_n

    @property
    def ublock_tiles(self) -> int:
        """Tiles of a micro block of the result."""
        return self.ublock_rt * self.ublock_ct
