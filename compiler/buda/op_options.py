"""What netlists of the real back end ask of an op beyond what the planner of this compiler ever asks for."""

from __future__ import annotations

from dataclasses import dataclass

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.program import EncodedMatmulParams


@dataclass(frozen=True)
class OpOptions:
    """Attributes of an op that change its values; names are those of tt-budabackend's netlist README."""

    tile: tuple[int, int] = (TILE, TILE)
    """Rows and columns of each 32x32 tile that its result fills; the rest is 0."""
    relu_mode: str = "min"
    """`min`: what is below the threshold becomes 0; `max`: what is above it becomes the threshold, negatives 0."""
    relu_threshold: float = 0.0
    bias: bool = False
    """Whether a product adds another operand: the first row of each of its tiles; of integers, all of it."""
    z: int = 0
    """Matrices that a product or a maximum along z makes one; 0: a product none, a maximum all."""
    scaling: str = ""
    """`requant` or `dequant`: a product of integers passes this with its last operand; empty: neither."""
    zero_point: float = 0.0
    """Of a quantization, requantization or dequantization."""
    blocks: int = 1
    """Of a depthwise product: blocks of columns that are added up (`m_k`)."""
    tiles: tuple[tuple[int, int], ...] = ()
    """Of a splice by blocks: for each tile of the result, the operand and its tile, both row by row."""
    k: int = 0
    """Of a topk: how many of each row."""
    indices: bool = False
    """Of a topk: whether its result is what the second operand has where the largest are (`sort: argmax`)."""
    num_indices: int = 0
    """Of an embedding: indices that each row of cores has."""
    encoding: EncodedMatmulParams | None = None
    """Of a product whose left operand is tiles placed by an encoding, its third operand."""
    cores: tuple[int, int] = (1, 1)
    """Rows and columns of cores, where each of them has a top or indices of its own."""


__all__ = ["OpOptions"]
