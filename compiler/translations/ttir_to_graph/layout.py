"""Layout of a tensor of any rank on tiles: its dims in three groups, `z`, rows and columns, each flattened.

A reshape that keeps the groups moves nothing. The TMs for a permutation are found by trying.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from opscope.compiler.buda.graph import TensorShape, Tm
from opscope.compiler.target.formats import TILE

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """Dims, and the indices where rows and columns start: `dims[:rows]` is z, `dims[cols:]` are columns."""

    dims: Dims
    rows: int
    cols: int

    @classmethod
    def matrix(cls, dims: Dims) -> Layout:
        """Returns the layout with the last two dims as rows and columns."""
        return cls(dims, max(0, len(dims) - 2), max(0, len(dims) - 1))

    @classmethod
    def pixels(cls, dims: Dims) -> Layout:
        """Returns the layout of an image `N, H, W, C`, with all pixels as rows."""
        return cls(dims, 1, len(dims) - 1)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Elements of z, rows, columns."""
        return prod(self.dims[: self.rows]), prod(self.dims[self.rows : self.cols]), prod(self.dims[self.cols :])

    @property
    def tiles(self) -> TensorShape:
        """The shape in tiles."""
        return TensorShape.of(self.sizes)

    def group(self, dim: int) -> str:
        """Returns the group of a dim: z, r or c."""
        return "z" if dim < self.rows else "r" if dim < self.cols else "c"

    def reshaped(self, dims: Dims) -> Layout | None:
        """Returns the layout of the same elements as `dims`, if these can be grouped into the same sizes; else None."""
        if prod(dims) != prod(self.dims):
            return None
        fits = [
            Layout(dims, rows, cols)
            for cols in range(len(dims) + 1)
            for rows in range(cols + 1)
            if Layout(dims, rows, cols).sizes == self.sizes
        ]
        # Among equal groupings, prefer one that puts unit dims where a matrix has them.
        wanted = Layout.matrix(dims)
        return min(fits, key=lambda x: abs(x.rows - wanted.rows) + abs(x.cols - wanted.cols), default=None)

    def like(self, dims: Dims) -> Layout:
        """Returns the same grouping of other dims of the same rank."""
        return Layout(dims, self.rows, self.cols)


def permuted(layout: Layout, order: tuple[int, ...]) -> tuple[Layout, tuple[Tm, ...]] | None:
    """Returns the layout after a permutation and the one or two TMs for it; None if it takes more."""
    dims = tuple(layout.dims[i] for i in order)
    moved = [i for i in order if layout.dims[i] != 1]
    if moved == sorted(moved):
        return (result_layout, ()) if (result_layout := layout.reshaped(dims)) else None
    axes = [i for i in range(len(order)) if layout.dims[i] != 1]
    z, r, c = ([i for i in axes if layout.group(i) == g] for g in "zrc")
    once = _movements(layout, z, r, c)
    twice = [(first + then, result) for first, groups in once for then, result in _movements(layout, *groups)]
    for tms, result in (*once, *twice):
        if [i for group in result for i in group] == moved:
            sizes = tuple(prod(layout.dims[i] for i in group) for group in result)
            result_layout = _grouped(dims, sizes)
            if result_layout is not None:
                return result_layout, tms
    return None


def regrouped(have: tuple[int, int, int], want: tuple[int, int, int]) -> tuple[Tm, ...] | None:
    """Returns the TM between two sizes of z, rows and columns that keeps the order of elements; None if there is none.

    Rows are cut into z or joined from it, in whole tiles.
    """
    if have == want:
        return ()
    if have[2] != want[2] or have[0] * have[1] != want[0] * want[1]:
        return None
    if want[0] % have[0] == 0 and want[1] % TILE == 0:
        return (Tm("vslice", want[0] // have[0]),)
    if have[0] % want[0] == 0 and have[1] % TILE == 0:
        return (Tm("vstack", have[0] // want[0]),)
    return None


def _movements(
    layout: Layout, z: list[int], r: list[int], c: list[int]
) -> list[tuple[tuple[Tm, ...], tuple[list[int], list[int], list[int]]]]:
    """Returns every single TM that keeps whole tiles, with the dims of z, rows and columns after it."""

    def size(axes: list[int]) -> int:
        return prod(layout.dims[i] for i in axes)

    movements = [((Tm("transpose"),), (z, c, r))]
    for k in range(1, len(c)):
        if size(c[k:]) % TILE == 0:
            movements.append(((Tm("hslice", size(c[:k])),), (z + c[:k], r, c[k:])))
    for k in range(1, len(z) + 1):
        if size(c) % TILE == 0:
            movements.append(((Tm("hstack", size(z[-k:])),), (z[:-k], r, z[-k:] + c)))
    return movements


def _grouped(dims: Dims, sizes: tuple[int, ...]) -> Layout | None:
    for cols in range(len(dims), -1, -1):
        for rows in range(cols, -1, -1):
            layout = Layout(dims, rows, cols)
            if layout.sizes == sizes:
                return layout
    return None


def broadcast(source: Layout, target: Layout) -> tuple[Tm, ...] | None:
    """Returns the TMs that repeat `source` over `target`, of the same rank; None if a group is repeated in part."""
    tms: list[Tm] = []
    for group, before, after in zip("zrc", source.sizes, target.sizes, strict=True):
        if before == after:
            continue
        if before != 1:
            return None
        tiles = after if group == "z" else -(-after // TILE)
        if group != "z":
            tms.append(Tm("tile_broadcast", dim=group))
        if tiles > 1:
            tms.append(Tm("broadcast", tiles, group))
    return tuple(tms)
