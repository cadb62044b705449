"""How a command reads a model's file where it must not import what reads it: the command line hands it a reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ModelFiles:
    """The reader of model files, as a context object of the command line."""

    read: Callable[[str, str | None], bytes]
    """`FILE` or `FILE:function`, and sizes for its open dimensions (`batch=4`) -> StableHLO bytecode of one model.

    Raises ValueError, in one line, for a file that holds no such model."""
