"""Sums of float32 on the vector unit, added in the order of tt-llk's kernel.

Tiles of the reduced dim are added up first, one after another. In a row of the tile that is left, places that lie 8
apart in their order of loads (even and odd columns of the left face, then of the right one) are added, then those 4, 2
and 1 apart. In a column, every fourth row of a face is added, the two faces, then the four sums. The order is that of
ckernel_sfpu_reduce.h (tt-llk, Blackhole); recorded sums of ttnn 0.81.1 have its bits (docs/conformance.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscope.compiler.target.formats import FACE, TILE
from opscope.compiler.target.rounding import Image


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
