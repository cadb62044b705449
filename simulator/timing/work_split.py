"""How tt-metal deals an operation that no plan places to cores, and what a caller may say of that.

Most kernels take the units of their result (tiles, or rows of a row-major tensor) in equal runs, and are started on the
whole grid even where there are fewer units than cores. Kernels that work on whole rows of tiles give each core as many
rows as the fullest one needs, and start no more cores than that takes. Source: the program factories of tt-metal's
ttnn/cpp/ttnn/operations (`split_work_to_cores`, `split_blocks_for_tilize`), and the core counts of real profiles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opscope.compiler.target.allocation import pages_of, tile_matrix
from opscope.compiler.target.product_blocks import ProductBlocks
from opscope.compiler.target.program import (
    LayoutParams,
    NormParams,
    Operation,
    ReshapeParams,
    TensorDesc,
)
from opscope.compiler.target.system_desc import Profile

FACE = 16
"""Rows and columns of a face, a quarter of a tile."""
WIDE = 32
"""Tiles of a row above which a row that is wider than the matrix is high is dealt by tiles (tt-metal:
`threshold_row_block` of tilize and untilize)."""


@dataclass(frozen=True)
class ConvBlocks:
    """How a convolution is cut, in tiles."""

    cores: int
    rows: int
    columns: int
    """What a core makes of the result."""
    depth: int
    """Of the product."""
    subblock: tuple[int, int]
    depth_cores: int = 1
    """Cores along which the channels of the input are dealt, whose parts every one of them needs."""


@dataclass(frozen=True)
class RelayBlocks:
    """A product whose blocks are handed from core to core (tt-metal's minimal_matmul), in tiles."""

    grid: tuple[int, int]
    rows: int
    step: int
    columns: int


@dataclass(frozen=True)
class Asked:
    """What a caller says of an operation beside its operands; what it leaves open is tt-metal's own choice."""

    cores: int = 0
    product: ProductBlocks | None = None
    relay: RelayBlocks | None = None
    conv: ConvBlocks | None = None
    l1_acc: bool = True
    """Whether the packer adds up partial sums of a product in L1, which else are unpacked again for each step."""


OPEN = Asked()


@dataclass(frozen=True)
class Split:
    """The cores of an operation."""

    units: int
    cores: int
    """At work."""
    started: int
    """That the kernels are started on."""

    @property
    def per_core(self) -> int:
        """Units of the fullest core."""
        return -(-self.units // self.cores)


def shard_cores(desc: TensorDesc) -> int:
    """Returns the cores that hold shards of a tensor; 0 of one that is dealt by pages."""
    return math.prod(desc.grid) if desc.buffer_type == "l1" and desc.memory_layout != "interleaved" else 0


def split_of(
    op: Operation, inputs: list[TensorDesc], outputs: list[TensorDesc], profile: Profile, asked: Asked
) -> Split:
    """Returns the cores of an operation that is neither a product nor a convolution."""
    result = outputs[0] if outputs else inputs[0]
    tilized = inputs and inputs[0].layout != result.layout
    if held := shard_cores(result) or (op.kernel == "to_memory_config" and shard_cores(inputs[0])):
        units = max(1, pages_of(result, profile)[0])
        cores = min(held, units)
        return Split(units, cores, asked.cores or held)
    if isinstance(op.params, LayoutParams) and tilized:
        down, across = tile_matrix(result.shape)
        units = down * across if across > WIDE and across > down else down
        return _rows(units, profile, asked)
    if op.kernel == "embedding":
        indices = math.prod(inputs[0].shape)
        return _rows(-(-indices // FACE), profile, asked)
    if isinstance(op.params, NormParams):
        return _rows(tile_matrix(result.shape)[0], profile, asked)
    if op.kernel == "softmax":
        return _tiles(tile_matrix(result.shape)[0], profile, asked)
    units = max(1, pages_of(result, profile)[0])
    if held := max(map(shard_cores, inputs), default=0):
        return Split(units, max(1, min(held, units)), asked.cores or held)
    if isinstance(op.params, ReshapeParams):
        cores = max(1, min(asked.cores or profile.cores, units))
        return Split(units, cores, cores)
    return _tiles(units, profile, asked)


def _rows(units: int, profile: Profile, asked: Asked) -> Split:
    cores = asked.cores or -(-units // -(-units // profile.cores))
    return Split(units, max(1, min(cores, units)), cores)


def _tiles(units: int, profile: Profile, asked: Asked) -> Split:
    started = asked.cores or profile.cores
    return Split(units, max(1, min(started, units)), started)
