"""How a command reads a model's file where it must not import what reads it: the command line hands it a reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Computed = tuple[int, str, list[tuple[tuple[int, ...], str]]]
"""An operation of a binary: number of its program, location, shape and element type of each result."""
GoldenOf = Callable[[int], Sequence[Any] | str]
"""Number of an operation -> the golden arrays of its results, or why there are none."""


@dataclass(frozen=True)
class ModelFiles:
    """The reader of model files, as a context object of the command line."""

    read: Callable[[str, str | None], bytes]
    """`FILE` or `FILE:function`, and sizes for its open dimensions (`batch=4`) -> StableHLO bytecode of one model.

    Raises ValueError, in one line, for a file that holds no such model."""
    goldens: Callable[[str, Sequence[Any], Sequence[Computed]], GoldenOf] | None = None
    """A model as `read` takes it, the values of its arguments, and the operations of a binary that was compiled from
    it -> what XLA computes for each. Raises ValueError for a model that these are not the arguments of."""
