"""How tt-metal deals an operation that no plan places to cores, and what a caller may say of that.

Most kernels take the units of their result (tiles, or rows of a row-major tensor) in equal runs, and are started on the
whole grid even where there are fewer units than cores. Kernels that work on whole rows of tiles give each core as many
rows as the fullest one needs, and start no more cores than that takes. Source: the program factories of tt-metal's
ttnn/cpp/ttnn/operations (`split_work_to_cores`, `split_blocks_for_tilize`), and the core counts of real profiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from opscope.compiler.target.allocation import pages_of, tensor_bytes, tile_matrix
from opscope.compiler.target.product_blocks import ProductBlocks
from opscope.compiler.target.program import (
    GatherParams,
    IndexedRowsParams,
    LayoutParams,
    NormParams,
    Operation,
    ReshapeParams,
    SliceParams,
    TensorDesc,
)
from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.timing.card_rates import ProductConstants

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
    constants: ProductConstants | None = None
    """Of products, in place of the architecture's, for fitting them."""


OPEN = Asked()


@dataclass(frozen=True)
class Work:
    """An operation that no plan places, on its chip."""

    op: Operation
    inputs: Sequence[TensorDesc]
    outputs: Sequence[TensorDesc]
    system: SystemDesc
    profile: Profile

    @property
    def result(self) -> TensorDesc:
        """The first result; of an operation without one, its first operand."""
        return self.outputs[0] if self.outputs else self.inputs[0]

    @property
    def picks(self) -> bool:
        """Whether it reads only the part of its operand that it returns."""
        picks = isinstance(self.op.params, GatherParams | SliceParams | IndexedRowsParams)
        return picks and self.op.kernel != "rows_scatter"

    @cached_property
    def read(self) -> Sequence[int]:
        """Bytes that it reads of each operand."""
        whole = [tensor_bytes(desc, self.profile) for desc in self.inputs]
        if not self.picks:
            return whole
        made = sum(tensor_bytes(desc, self.profile) for desc in self.outputs)
        return [min(size, made) for size in whole]

    def dram_read(self, first: int = 0) -> int:
        """Bytes that it reads from DRAM, of its operands from number `first` on."""
        pairs = zip(self.inputs[first:], self.read[first:], strict=True)
        return sum(size for desc, size in pairs if desc.buffer_type == "dram")

    @cached_property
    def dram_written(self) -> int:
        """Bytes that it writes to DRAM."""
        return sum(tensor_bytes(desc, self.profile) for desc in self.outputs if desc.buffer_type == "dram")


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


def split_of(work: Work, asked: Asked) -> Split:
    """Returns the cores of an operation that is neither a product nor a convolution."""
    op, inputs, result, profile = work.op, work.inputs, work.result, work.profile
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
