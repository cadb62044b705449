"""The non-zero tiles of a sparse matrix, the left operand of a sparse matmul.

A convolution is a sparse matmul (the *picker* gathers, for each kernel tap, the input rows that the tap reads, one tap
below the other) and then a dense one with the weights. Other pickers move, repeat or drop any rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, product
from math import prod

import numpy as np

from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.formats import TILE
from opscope.compiler.target.runs import rows_of

STRIP_HEADER_BYTES = 6
"""Bytes that encode a strip (a column of blocks): its index and the number of its blocks that follow."""
INDEX_BYTES = 2
"""Bytes that encode a block or a tile."""
INDEX_BITS = 16
"""Bits that a tile's identity and its place in its block must fit in."""


@dataclass(frozen=True)
class SparseShare:
    """The pattern's share of the busiest row of cores, in counts over all of `t`."""

    nz_tiles: int
    nz_ublocks: int
    nz_strips: int
    unique_tiles: int
    """Different tiles, including the zero tile, each held in L1 once."""
    encoding_bytes: int


@dataclass(frozen=True)
class Windows:
    """The windows of a 2-D convolution or pool over `size` pixels, which its picker picks."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    dilation: tuple[int, int] = (1, 1)


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """The non-zero tiles, as (row, column, identity); equal tiles have the same identity.

    Compared by identity, since patterns have up to a hundred thousand tiles and are looked up often.
    """

    rows: int
    cols: int
    tiles: tuple[tuple[int, int, int], ...]
    taps: int = 1
    """Number of equal parts, one below the other; a convolution has one per kernel tap."""
    windows: Windows | None = None
    """The windows of the convolution whose picker this is, if any."""
    runs: tuple[int, ...] = ()
    """The row that each row of a product with it is, as runs (`target/runs.py`); empty for a convolution's picker."""

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int]], rows: int, cols: int, taps: int = 1) -> SparsePattern:
        """Returns the pattern of a 0/1 matrix of `rows` x `cols` elements (whole tiles) with ones at `entries`."""
        if rows % TILE or cols % TILE:
            raise CompilerInputError(f"sparse matrix: expected whole tiles, got {rows}x{cols} elements")
        inside: dict[tuple[int, int], list[int]] = {}
        for row, col in entries:
            inside.setdefault((row // TILE, col // TILE), []).append(row % TILE * TILE + col % TILE)
        known: dict[tuple[int, ...], int] = {}
        tiles = [(r, c, known.setdefault(tuple(sorted(ones)), len(known) + 1)) for (r, c), ones in inside.items()]
        return cls(rows // TILE, cols // TILE, tuple(sorted(tiles)), taps)

    @classmethod
    @cache
    def of_convolution(
        cls,
        size: tuple[int, int],
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[tuple[int, int], tuple[int, int]],
        dilation: tuple[int, int] = (1, 1),
    ) -> SparsePattern:
        """Returns the picker of a 2-D convolution over `size` pixels; equal ones are the same object."""
        entries, per_tap = picked_pixels(size, kernel, stride, padding, dilation)
        taps = prod(kernel)
        pattern = cls.of(entries, taps * per_tap, -(-prod(size) // TILE) * TILE, taps)
        return replace(pattern, windows=Windows(size, kernel, stride, padding, dilation))

    @classmethod
    @cache
    def of_runs(cls, runs: tuple[int, ...], source_rows: int, taps: int = 1) -> SparsePattern:
        """Returns the picker of a product whose rows are those that the runs name, of `source_rows` elements.

        Equal ones are the same object. Raises CompilerInputError if a run is none or leaves the source.
        """
        try:
            rows = rows_of(runs)
        except ValueError as error:
            raise CompilerInputError(str(error)) from error
        if len(rows) % (taps * TILE if taps > 1 else 1):
            raise CompilerInputError(f"runs: expected {taps} taps of whole tiles, got {len(rows)} rows")
        if not len(rows) or rows.max() >= source_rows:
            raise CompilerInputError(f"runs: expected rows below {source_rows}, got {max(rows, default=None)}")
        picked = np.flatnonzero(rows >= 0)
        entries = zip(picked.tolist(), rows[picked].tolist(), strict=True)
        height, width = (-(-size // TILE) * TILE for size in (len(rows), source_rows))
        return replace(cls.of(entries, height, width, taps), runs=runs)

    @cached_property
    def unique_tiles(self) -> int:
        """Number of different tiles, including the zero tile."""
        return 1 + max((identity for *_, identity in self.tiles), default=0)

    def most_inner_tiles(self, ublock_rows: int, u_rt: int) -> int:
        """Widest block along the inner dimension that the encoding can address; 0 if not even one tile fits.

        A 16-bit index holds a tile's identity (or its block's row, whichever is longer) and its place in the block.
        """
        room = INDEX_BITS - max(self.unique_tiles, ublock_rows).bit_length() - (u_rt - 1).bit_length()
        return 1 << room if room > 0 else 0

    def legal_inner_tiles(self, grid_r: int, t: int, z_major: bool, sizes: Sequence[int]) -> tuple[int, ...]:
        """Returns those of `sizes` with which every core only goes forward through the right operand, in all pieces."""
        key = (grid_r, t, z_major, tuple(sizes))
        if key not in self._legal:
            steps = self._steps(grid_r, t, z_major)
            self._legal[key] = (
                ()
                if steps is None
                else tuple(size for size in sizes if all(last // size <= first // size for last, first in steps))
            )
        return self._legal[key]

    def _steps(self, grid_r: int, t: int, z_major: bool) -> frozenset[tuple[int, int]] | None:
        """Returns (last column of a piece, first column of the core's next one), for all cores and pieces."""
        key = (grid_r, t, z_major)
        if key not in self._stepped:
            self._stepped[key] = self._forward_steps(*key)
        return self._stepped[key]

    def _forward_steps(self, grid_r: int, t: int, z_major: bool) -> frozenset[tuple[int, int]] | None:
        per_group = self.rows // (self.taps if z_major else 1)
        height = self._piece_height(grid_r, t, z_major)
        if height is None:
            return None
        row, col, _ = self._columns
        part = row % per_group // height
        first = np.full(t * grid_r, self.cols)
        last = np.full(t * grid_r, -1)
        np.minimum.at(first, part, col)
        np.maximum.at(last, part, col)
        steps: set[tuple[int, int]] = set()
        for firsts, lasts in zip(first.reshape(t, grid_r).T, last.reshape(t, grid_r).T, strict=True):
            read = lasts >= 0  # an empty piece reads nothing
            steps.update(zip(lasts[read][:-1].tolist(), firsts[read][1:].tolist(), strict=True))
        return frozenset(steps)

    def share(self, grid_r: int, t: int, z_major: bool, u_rt: int, u_kt: int) -> SparseShare:
        """Returns the largest share of a row of cores. Rows must divide into `grid_r` x `t` pieces."""
        key = (grid_r, t, z_major, u_rt, u_kt)
        if key not in self._shares:
            self._shares[key] = self._largest_share(*key)
        return self._shares[key]

    def _largest_share(self, grid_r: int, t: int, z_major: bool, u_rt: int, u_kt: int) -> SparseShare:
        slices = self._cut_rows(grid_r, t, z_major)
        if slices is None:
            raise CompilerInputError(
                f"sparse matrix of {self.rows} rows: expected a grid and a t that divide it, got {grid_r} and {t}"
            )
        shares = []
        for core in range(grid_r):
            tiles = [(piece, r // u_rt, c // u_kt, i) for piece in range(t) for r, c, i in slices[piece][core]]
            ublocks = {(piece, r, c) for piece, r, c, _ in tiles}
            strips = {(piece, c) for piece, _, c in ublocks}
            # An empty piece still has one strip, so that the kernel moves on.
            coded = len(strips) + t - len({piece for piece, _ in strips})
            size = STRIP_HEADER_BYTES * coded + INDEX_BYTES * (len(ublocks) + len(tiles))
            shares.append((len(tiles), len(ublocks), len(strips), 1 + len({i for *_, i in tiles}), size))
        return SparseShare(*(max(column) for column in zip(*shares, strict=True)))

    def reach(self, t: int, z_major: bool) -> tuple[float, ...]:
        """Returns per piece the share of the right operand's rows down to the last that it or one before reads."""
        key = (t, z_major)
        if key not in self._reaches:
            groups = self.taps if z_major else 1
            per_group = self.rows // groups
            last = [0] * t
            for row, col, _ in self.tiles:
                piece = row % per_group * t // per_group
                last[piece] = max(last[piece], col + 1)
            self._reaches[key] = tuple(size / self.cols for size in accumulate(last, max))
        return self._reaches[key]

    @cached_property
    def _reaches(self) -> dict[tuple[int, bool], tuple[float, ...]]:
        return {}

    @cached_property
    def _legal(self) -> dict[tuple[int, int, bool, tuple[int, ...]], tuple[int, ...]]:
        return {}

    @cached_property
    def _stepped(self) -> dict[tuple[int, int, bool], frozenset[tuple[int, int]] | None]:
        return {}

    @cached_property
    def _shares(self) -> dict[tuple[int, int, bool, int, int], SparseShare]:
        return {}

    @cached_property
    def _columns(self) -> np.ndarray:
        """The tiles as three arrays: rows, columns, identities."""
        return np.array(self.tiles, np.int64).reshape(-1, 3).T

    def _piece_height(self, grid_r: int, t: int, z_major: bool) -> int | None:
        """Returns the rows of a piece on a core, of one tap in z-major order; None if the rows do not divide."""
        height, rest = divmod(self.rows, grid_r * t * (self.taps if z_major else 1))
        return None if rest else height

    def _cut_rows(self, grid_r: int, t: int, z_major: bool) -> list[list[list[tuple[int, int, int]]]] | None:
        """Returns [piece][core] -> its tiles, with rows counted inside the piece; None if the rows do not divide.

        In z-major order a piece is the same rows of every tap, otherwise rows are distributed from the top.
        """
        groups = self.taps if z_major else 1
        height = self._piece_height(grid_r, t, z_major)
        if height is None:
            return None
        per_group = self.rows // groups
        slices: list[list[list[tuple[int, int, int]]]] = [[[] for _ in range(grid_r)] for _ in range(t)]
        for row, col, identity in self.tiles:
            group, inside = divmod(row, per_group)
            part, at = divmod(inside, height)
            piece, core = divmod(part, grid_r)
            slices[piece][core].append((at * groups + group, col, identity))
        return slices


def picked_pixels(
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int] = (1, 1),
) -> tuple[list[tuple[int, int]], int]:
    """Returns (row, pixel that it reads) for a convolution's picker, and rows per kernel tap, padded to whole tiles."""
    axes = range(2)
    out = [(size[a] + sum(padding[a]) - (kernel[a] - 1) * dilation[a] - 1) // stride[a] + 1 for a in axes]
    per_tap = -(-prod(out) // TILE) * TILE
    picked = []
    for tap, at in enumerate(product(range(kernel[0]), range(kernel[1]))):
        for pixel, to in enumerate(product(range(out[0]), range(out[1]))):
            source = [to[a] * stride[a] + at[a] * dilation[a] - padding[a][0] for a in axes]
            if all(0 <= source[a] < size[a] for a in axes):
                picked.append((tap * per_tap + pixel, source[0] * size[1] + source[1]))
    return picked, per_tap
