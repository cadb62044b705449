"""The tile, as programs ask for it."""

from __future__ import annotations

from opscope.compiler.target.formats import TILE

TILE_DIM = TILE
"""Rows and columns of a tile."""
LAST_SUCCESSFUL_STAGE = None
"""The stage that a compilation of TT-Buda came to; the stages here are those of `opscope show`."""


def round_up_div(size: int, by: int) -> int:
    """Returns how many parts of size `by` hold `size`."""
    return -(-size // by)


def align_up_tile(size: int) -> int:
    """Returns the next multiple of a tile."""
    return -(-size // TILE_DIM) * TILE_DIM
