"""Where two tensors part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainSerializer


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Difference:
    """One element that differs."""

    index: tuple[int, ...]
    place: str
    """Its tile (batch entry, row, column), face and row of the face."""
    left: str
    right: str
    size: Annotated[float, PlainSerializer(_finite, return_type=float | None)]
    """Distance of the values; infinite where one of them alone is NaN or infinite, which is printed as null."""


@dataclass(frozen=True)
class Compared:
    """Two tensors."""

    name: str
    shape: tuple[int, ...]
    differing: int
    relative_l2: float | None
    """Norm of the difference over that of B, of elements that are finite in both; None if there is none, or B is 0."""
    worst: tuple[Difference, ...]
    tiles: tuple[tuple[str, int], ...]
    """Tiles that hold most of the elements that differ, and how many."""
    problem: str = ""
    """Why they were not compared."""
