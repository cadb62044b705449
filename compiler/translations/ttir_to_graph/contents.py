"""The contents of a graph's sources: a TTIR value that the host has, laid out as z, rows, columns."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue


@dataclass(frozen=True)
class Content:
    """One source of the graph."""

    name: str
    value: SSAValue
    elements: tuple[int, int, int]
    """Along z, rows and columns: the value's elements in row-major order."""
    inverted: bool = False
    """Its reciprocal is held."""
    channels: int = 0
    """Of a convolution's weights (KH, KW, I, O): I, which is filled up with zeros to whole tiles."""
