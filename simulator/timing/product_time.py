"""Cycles of a matrix product that no plan places: feeding each step, computing it, writing the result.

A core of each row reads the step's part of the left operand from DRAM and multicasts it along the row, one of each
column does so with the right operand; meanwhile the step before is computed. Where the packer does not add up partial
sums in L1, they are unpacked again for each step. Results in DRAM are written block by block: the last one after
everything else, and each before it as far as one step does not hide it, since the same processor reads the next
operands. Products of many pairs of matrices follow one another.

Blocks may go from core to core instead (tt-metal's minimal_matmul). The first core of each row and column reads a block
of an operand from DRAM and hands it on, as every core after it does; a core hands on a block before it asks for the
next one. So each step takes a read and a hand-over, or the product where that takes longer, and the last core is as
many hand-overs behind the first one as there are cores between them. Nothing of this is fitted.

All figures are those of `movement.py` and `card_rates.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.product_blocks import Product, ProductBlocks, cut, in_shards
from opscope.compiler.target.program import TensorDesc
from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.card_rates import CARD_RATES, PRODUCTS, ProductConstants, dram_rates
from opscope.simulator.timing.movement import MOVEMENT
from opscope.simulator.timing.work_split import OPEN, Asked, RelayBlocks

BLEND = 6
"""Norm by which work at the same time adds up: a little more than the slowest takes."""


@dataclass(frozen=True)
class ProductTime:
    """The cycles of a product, without its launch."""

    total: float
    compute: float
    transfer: float
    """Of feeding, most of it while the core computes, and of writing."""
    write: float
    """In which results are written and nothing else is done."""
    dram_read_bytes: int
    noc_bytes: int
    """That a core receives."""
    cores: int
    unit: str
    """What the cores work at longest: `math` or `unpack`."""


def product_time(product: Product, system: SystemDesc, profile: Profile, asked: Asked = OPEN) -> ProductTime:
    """Returns the time of a product, or of several, one after another."""
    blocks = asked.product or cut(product, profile, asked.cores)
    own = asked.constants or PRODUCTS[system.arch]
    feeds = _feeds(product, blocks, system, profile, own)
    deep = -(-product.depth // blocks.step)
    turns = product.batches
    if blocks.alone:
        parts = turns * -(-product.rows // blocks.rows) * -(-product.columns // blocks.columns)
        turns = -(-parts // math.prod(blocks.grid))
    multiply = system.cycles_per_tile_matmul * FIDELITIES[product.numerics.fidelity] + own.overhead
    unpack = FORMATS[product.right.data_format].tile_bytes / own.unpacked
    compute = _step(blocks, _together(multiply, unpack), own)
    tiles = blocks.block_rows * blocks.block_columns
    if not asked.l1_acc:
        wide = FORMATS["Float32" if product.numerics.dst_format == "Float32" else "Float16_b"].tile_bytes
        compute += tiles * wide / own.unpacked * (deep - 1) / deep
    cores = math.prod(blocks.grid)
    size = cores * tiles * FORMATS[product.out.data_format].tile_bytes
    rate = own.written * system.dram_gb_per_s / system.clock_ghz
    in_dram = product.out.buffer_type == "dram"
    block = MOVEMENT[system.arch].dram_write.latency + size / rate if in_dram else 0.0
    steps = turns * blocks.blocks * deep
    if product.batches > 1:
        # One processor reads the right operand and writes the result of each product in turn. The other one reads the
        # left operand meanwhile, unless it is multicast: then it waits for its receivers.
        own_left = blocks.line == "right" or blocks.alone
        fed = feeds.right_cycles if own_left else feeds.cycles
        each = blocks.blocks * deep
        first_tile = CARD_RATES[system.arch].first_tile
        turn = fed + (each - 1) * _together(fed, compute) + compute + first_tile + blocks.blocks * block
        total = turns * max(turn, each * feeds.left_cycles if own_left else 0.0)
        written = turns * blocks.blocks * block
    else:
        step = _together(feeds.cycles, compute)
        written = block + (blocks.blocks - 1) * max(0.0, block - step)
        total = feeds.cycles + (steps - 1) * step + compute + written
    return ProductTime(
        total,
        steps * compute,
        steps * feeds.cycles + written,
        written,
        int(steps * feeds.dram_bytes),
        int(steps * feeds.received),
        cores,
        "unpack" if unpack > multiply else "math",
    )


@dataclass(frozen=True)
class _Feeds:
    """Both operands of a step, on their way to the cores."""

    left_cycles: float
    right_cycles: float
    cycles: float
    """Of both at the same time."""
    dram_bytes: int
    """That all cores read."""
    received: int
    """Bytes that a core receives."""


def _feeds(
    product: Product, blocks: ProductBlocks, system: SystemDesc, profile: Profile, own: ProductConstants
) -> _Feeds:
    """Returns how long a step's operands are on their way."""
    cores = math.prod(blocks.grid)
    left_senders = 1 if blocks.line == "left" else blocks.grid[0]
    right_senders = cores if blocks.alone else 1 if blocks.line == "right" else blocks.grid[1]
    left, right = (
        Feed(tiles, tiles * FORMATS[desc.data_format].tile_bytes, senders, cores, desc.buffer_type == "dram")
        for desc, tiles, senders in (
            (product.left, blocks.block_rows * blocks.step, left_senders),
            (product.right, blocks.block_columns * blocks.step, right_senders),
        )
    )
    read = sum(each.senders * each.size for each in (left, right) if each.in_dram)
    here = _stays(product.left, product.out, blocks)
    left_cycles = 0.0 if here else left.cycles(system, profile, own)
    right_cycles = right.cycles(system, profile, own)
    slowest = max(left_cycles, right_cycles, read / dram_rates(system)[0])
    return _Feeds(left_cycles, right_cycles, slowest, read, right.size + (0 if here else left.size))


@dataclass(frozen=True)
class Feed:
    """One operand of a step."""

    tiles: int
    size: int
    """Bytes."""
    senders: int
    """Cores that read it, each its part."""
    cores: int
    in_dram: bool

    def cycles(self, system: SystemDesc, profile: Profile, own: ProductConstants) -> float:
        """Returns the cycles in which its senders read it and multicast it."""
        movement = MOVEMENT[system.arch]
        source = movement.dram_read if self.in_dram else movement.l1_read
        rate = movement.scattered if self.in_dram else movement.l1_read.stream
        read = source.latency + max(self.tiles * source.issue, self.size / rate)
        if self.senders == self.cores:
            rows = self.cores * self.tiles * CARD_RATES[system.arch].row_ns * system.clock_ghz / profile.dram_channels
            return max(read, source.latency + rows) if self.in_dram else read
        sent = movement.multicast.to(self.cores / self.senders - 1, linked=True)
        return read + sent.cycles(1, self.size) - (1 - own.awaited) * sent.latency


def _step(blocks: ProductBlocks, product: float, own: ProductConstants) -> float:
    tiles = blocks.block_rows * blocks.block_columns
    return tiles * blocks.step * product + tiles / (blocks.subblock[0] * blocks.subblock[1]) * own.subblock


def _together(*stages: float) -> float:
    most = max(stages)
    return most * sum((stage / most) ** BLEND for stage in stages) ** (1 / BLEND) if most > 0 else 0.0


def _stays(left: TensorDesc, out: TensorDesc, blocks: ProductBlocks) -> bool:
    """Whether each core has all rows of the left operand that it needs."""
    same = left.memory_layout == out.memory_layout == "height_sharded" and left.grid == out.grid
    return same and in_shards(left) and blocks.line == "right"


def relay_time(product: Product, system: SystemDesc, blocks: RelayBlocks) -> ProductTime:
    """Returns the time of one product."""
    depth, movement = product.depth, MOVEMENT[system.arch]
    high, wide = -(-product.rows // blocks.grid[0]), -(-product.columns // blocks.grid[1])
    down, across = -(-high // blocks.rows), -(-wide // blocks.columns)
    deep = -(-depth // blocks.step)
    steps = down * across * deep
    left_tiles, right_tiles = (size / count * min(blocks.step, depth) for size, count in ((high, down), (wide, across)))
    left_step, right_step = (
        count * FORMATS[desc.data_format].tile_bytes
        for count, desc in ((left_tiles, product.left), (right_tiles, product.right))
    )
    read = movement.dram_read.latency + max(left_step, right_step) / movement.dram_read.stream
    handed = movement.l1_write.latency + max(left_step, right_step) / movement.l1_write.stream
    own = PRODUCTS[system.arch]
    each = system.cycles_per_tile_matmul * FIDELITIES[product.numerics.fidelity] + own.overhead
    multiplied = left_tiles * right_tiles / min(blocks.step, depth) * each
    last = high * wide / (down * across) * FORMATS[product.out.data_format].tile_bytes
    write = movement.dram_write.cycles(1, last)
    step = max(read + handed, multiplied)
    total = steps * step + (max(blocks.grid) - 1) * handed + multiplied + write
    return ProductTime(
        total,
        steps * multiplied,
        steps * (read + handed) + write,
        write,
        int(steps * (blocks.grid[0] * left_step + blocks.grid[1] * right_step)),
        int(steps * (left_step + right_step)),
        blocks.grid[0] * blocks.grid[1],
        "math",
    )
