"""Sizes of a tensor: a tuple that has TT-Buda's names for its dimensions."""

from __future__ import annotations

from typing import Any, Self

from opscope.simulator.host.submodules.tile import TILE_DIM

DIMENSIONS = ("c", "r", "z", "w")
"""Names of the dimensions, from the innermost on: columns, rows, and what is before them."""


class TensorShape(tuple[int, ...]):
    """The sizes of a tensor: `r`, `c`, `z` and `w` of them, `rt` and `ct` in tiles, the last of which may not be full.

    One that the tensor lacks is an AttributeError.
    """

    __slots__ = ()

    def __new__(cls, *dims: int) -> Self:
        """Takes each size as an argument of its own."""
        return super().__new__(cls, dims)

    def __getnewargs__(self) -> tuple[int, ...]:
        return tuple(self)

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self)

    def get_pytorch_shape(self) -> tuple[int, ...]:
        """Returns the sizes."""
        return tuple(self)

    def __getattr__(self, name: str) -> Any:
        if name in ("rt", "ct"):
            return -(-getattr(self, name[0]) // TILE_DIM)
        if name not in DIMENSIONS or DIMENSIONS.index(name) >= len(self):
            raise AttributeError(f"shape {list(self)}: expected a dimension that it has, got {name}")
        return self[-1 - DIMENSIONS.index(name)]
