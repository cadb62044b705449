"""Figures of a result by the cells of a grid over it: for the heat map, and to name a region of wrong elements.

A tensor is a stack of matrices, its last two dims; a vector is one row (as in harness/verdict/places.py).
"""

from __future__ import annotations

import math

import numpy as np

from opscope.harness.record.explanation import HeatMap
from opscope.harness.verdict.places import FACE, TILE

ROWS, COLUMNS = 48, 64
"""Most cells of a heat map."""


def cube(array: np.ndarray) -> np.ndarray:
    """The array as (matrices, rows, columns)."""
    rows = array.shape[-2] if array.ndim > 1 else 1
    columns = array.shape[-1] if array.ndim else 1
    return array.reshape(-1, rows, columns)


def cell_sums(stack: np.ndarray, size: tuple[int, ...], dtype: type = np.int64) -> np.ndarray:
    """Sums over cells of so many matrices, rows and columns, the last of each perhaps smaller."""
    total = stack
    for axis in (2, 1, 0):
        if size[axis] > 1:
            total = np.add.reduceat(total, np.arange(0, total.shape[axis], size[axis]), axis=axis, dtype=dtype)
    return total.astype(dtype, copy=False)


def cell_counts(shape: tuple[int, ...], size: tuple[int, ...]) -> np.ndarray:
    """How many elements each cell has."""
    counts = [np.minimum(step, extent - np.arange(0, extent, step)) for extent, step in zip(shape, size, strict=True)]
    return counts[0][:, None, None] * counts[1][None, :, None] * counts[2][None, None, :]


def heat_map(wrong: np.ndarray, z: np.ndarray | None, tiled: bool) -> HeatMap:
    """Where a result is wrong: the share of wrong elements by cell, or the root mean square of z if no element is
    beyond its limit. `tiled`: whether cells may be called tiles and faces."""
    share = bool(wrong.any()) or z is None
    values = cube(wrong) if share else np.square(cube(np.asarray(z)), dtype=np.float64)
    size, name = _cell(values.shape, tiled)
    sums = cell_sums(values, size, np.float64)
    cells = sums / cell_counts(values.shape, size)
    if not share:
        cells = np.sqrt(cells)
    rows = tuple(tuple(float(f"{value:.4g}") for value in row) for matrix in cells for row in matrix)
    what = "share of wrong elements" if share else "root mean square of z"
    return HeatMap(cells=rows, what=what, cell=name, batch_rows=cells.shape[1])


def _cell(shape: tuple[int, ...], tiled: bool) -> tuple[tuple[int, int, int], str]:
    """The smallest usual cell with which a map has few enough cells, and its name."""
    batch, rows, columns = shape
    sizes = [(1, 1, "element"), (1, FACE, f"face row (1x{FACE})"), (FACE, FACE, f"face ({FACE}x{FACE})")]
    sizes += [(TILE, TILE, f"tile ({TILE}x{TILE})")]
    sizes += [(TILE * n, TILE * n, f"block of {n}x{n} tiles") for n in (2**k for k in range(1, 40))]

    def fits(high: int, wide: int) -> bool:
        down = -(-rows // high)
        # Batch entries are put together where the cells are tiles; before that, cells become larger.
        return -(-columns // wide) <= COLUMNS and (down if high >= TILE else batch * down) <= ROWS

    high, wide, name = next(size for size in sizes if fits(*size[:2]))
    if not tiled and (high, wide) != (1, 1):
        name = f"{high}x{wide} elements"
    down = -(-rows // high)
    together = math.ceil(batch * down / ROWS)
    return (together, high, wide), name + (f" of {together} batch entries" if together > 1 else "")


KINDS: tuple[tuple[str, tuple[int | None, int | None, int | None]], ...] = (
    ("the whole result", (None, None, None)),
    ("batch entry", (1, None, None)),
    ("tile", (1, TILE, TILE)),
    ("face", (1, FACE, FACE)),
    ("row", (1, 1, None)),
    ("column", (1, None, 1)),
    ("face row", (1, 1, FACE)),
)
"""Structures of a tensor, the larger first: the name, and how many matrices, rows and columns one has (None: all)."""
ON_TILES = {"tile", "face", "face row"}
"""Those that a tensor has only where it is held in tiles."""
NAMED = 4
"""So many structures are named; of more, their number."""
COMPLETE = 0.99


def region(suspect: np.ndarray, inside: np.ndarray, tiled: bool) -> str:
    """The structures that hold all `suspect` elements and consist of elements that are `inside`; empty if there are
    none such. The fewest are named: `tile (0, 3)`, `3 rows: 5, 6, 7`. `tiled`: whether there are tiles and faces."""
    suspects, members = cube(suspect), cube(inside)
    total, best, said = int(suspects.sum()), 0, ""
    if not total:
        return ""
    for kind, spans in KINDS:
        size = tuple(extent if span is None else span for extent, span in zip(suspects.shape, spans, strict=True))
        if (kind == "batch entry" and suspects.shape[0] == 1) or (kind in ON_TILES and not tiled):
            continue
        counts = cell_counts(suspects.shape, size)
        wrong = cell_sums(suspects, size)
        full = cell_sums(members, size) >= COMPLETE * counts
        chosen = full & (wrong > 0)
        number = int(chosen.sum())
        if number and wrong[chosen].sum() >= COMPLETE * total and (not best or number < best):
            best, said = number, _named(kind, chosen, spans)
    return said


def _named(kind: str, chosen: np.ndarray, spans: tuple[int | None, int | None, int | None]) -> str:
    """The chosen structures by their numbers."""
    places = np.argwhere(chosen)
    axes = [axis for axis in range(3) if spans[axis] is not None and (axis or chosen.shape[0] > 1)]
    if not axes:
        return kind if spans == (None, None, None) else f"the only {kind}"
    if len(places) > NAMED:
        return f"{len(places):,} of {chosen.size:,} {_plural(kind)}"
    names = [", ".join(str(int(place[axis])) for axis in axes) for place in places]
    names = [f"({name})" for name in names] if len(axes) > 1 else names
    return f"{kind} {names[0]}" if len(names) == 1 else f"{len(names)} {_plural(kind)}: {', '.join(names)}"


def _plural(kind: str) -> str:
    return "batch entries" if kind == "batch entry" else f"{kind}s"
