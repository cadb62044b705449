"""Cycles of a matrix product that no plan places: feeding each step, computing it, writing the result.

A core of each row reads the step's part of the left operand from DRAM and multicasts it along the row, one of each
column does so with the right operand; meanwhile the step before is computed. Where the packer does not add up partial
sums in L1, they are unpacked again for each step. Results in DRAM are written block by block: the last one after
everything else, and each before it as far as one step does not hide it, since the same processor reads the next
operands. Products of many pairs of matrices follow one another. The figures of transfers are those of `movement.py` and
`card_rates.py`; the constants are fitted to one of each two neighbouring n150 rows of tt-metal's tech_reports/
GEMM_FLOPS by `python -m ci.calibration.fit_products`, three of Blackhole's to one of each two of p150.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.product_blocks import ProductBlocks, cut, in_shards
from opscope.compiler.target.program import Numerics, TensorDesc
from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.card_rates import CARD_RATES, dram_rates
from opscope.simulator.timing.movement import MOVEMENT
from opscope.simulator.timing.work_split import OPEN, Asked

BLEND = 6
"""Norm by which work at the same time adds up: a little more than the slowest takes."""


@dataclass(frozen=True)
class ProductConstants:
    """What products of a chip take beside transfers."""

    overhead: float
    """Cycles of a 32x32x32 product beside those of the matrix unit."""
    unpacked: float
    """Bytes of the right operand that a core unpacks per cycle: a tile for each product."""
    subblock: float
    """Cycles of a subblock per step: waiting for it, packing it and adding it up in L1."""
    written: float
    """Share of DRAM's rate at which all cores write, block by block on the network that brings the operands."""
    awaited: float
    """Share of a multicast's latency, which is that of its answers, after which the cores that receive it go on."""


N150 = ProductConstants(3.2, 42.6, 125.0, 0.35, 1.0)
PRODUCTS: Mapping[str, ProductConstants] = {
    "wormhole_b0": N150,
    # Unpacks twice the bytes per cycle, as its NoC brings: tt-isa-documentation (BlackholeA0/TensixTile) says that L1
    # has more bandwidth than Wormhole's, not how much. No overhead; the other three by half of p150's rows.
    "blackhole": ProductConstants(0.0, 2 * N150.unpacked, 60.6, 0.543, 0.746),
    "grayskull": N150,  # nobody published its products
}


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


def product_time(
    tiles: tuple[int, int, int],
    left: TensorDesc,
    right: TensorDesc,
    out: TensorDesc,
    numerics: Numerics,
    system: SystemDesc,
    profile: Profile,
    constants: ProductConstants | None = None,
    asked: Asked = OPEN,
    batches: int = 1,
) -> ProductTime:
    """Returns the time of `batches` products, one after another, of `tiles` rows, columns and depth."""
    blocks = asked.product or cut(tiles, batches, left, right, out, numerics, profile, asked.cores)
    own, rates = constants or PRODUCTS[system.arch], CARD_RATES[system.arch]
    left_tiles, right_tiles = blocks.block_rows * blocks.step, blocks.block_columns * blocks.step
    left_step, right_step = (
        count * FORMATS[desc.data_format].tile_bytes for count, desc in ((left_tiles, left), (right_tiles, right))
    )
    deep = -(-tiles[2] // blocks.step)
    turns = batches
    if blocks.alone:
        parts = batches * -(-tiles[0] // blocks.rows) * -(-tiles[1] // blocks.columns)
        turns = -(-parts // math.prod(blocks.grid))
    steps = turns * blocks.blocks * deep
    cores = blocks.grid[0] * blocks.grid[1]
    here = _stays(left, out, blocks)
    left_senders = 1 if blocks.line == "left" else blocks.grid[0]
    right_senders = cores if blocks.alone else 1 if blocks.line == "right" else blocks.grid[1]
    left_feed = Feed(left_tiles, left_step, left_senders, cores, left.buffer_type == "dram")
    right_feed = Feed(right_tiles, right_step, right_senders, cores, right.buffer_type == "dram")
    dram = sum(each.senders * each.size for each in (left_feed, right_feed) if each.in_dram) / dram_rates(system)[0]
    left_cycles = 0.0 if here else left_feed.cycles(system, profile, own)
    right_cycles = right_feed.cycles(system, profile, own)
    feed = max(left_cycles, right_cycles, dram)
    multiply = system.cycles_per_tile_matmul * FIDELITIES[numerics.fidelity] + own.overhead
    unpack = FORMATS[right.data_format].tile_bytes / own.unpacked
    compute = _step(blocks, _together(multiply, unpack), own)
    if not asked.l1_acc:
        wide = FORMATS["Float32" if numerics.dst_format == "Float32" else "Float16_b"].tile_bytes
        compute += blocks.block_rows * blocks.block_columns * wide / own.unpacked * (deep - 1) / deep
    step = _together(feed, compute)
    size = cores * blocks.block_rows * blocks.block_columns * FORMATS[out.data_format].tile_bytes
    rate = own.written * system.dram_gb_per_s / system.clock_ghz
    block = MOVEMENT[system.arch].dram_write.latency + size / rate if out.buffer_type == "dram" else 0.0
    if batches > 1:
        # One processor reads the right operand and writes the result of each product in turn. The other one reads the
        # left operand meanwhile, unless it is multicast: then it waits for its receivers.
        own_left = blocks.line == "right" or blocks.alone
        fed = right_cycles if own_left else feed
        turn = (
            fed
            + (blocks.blocks * deep - 1) * _together(fed, compute)
            + compute
            + rates.first_tile
            + blocks.blocks * block
        )
        total = turns * max(turn, blocks.blocks * deep * left_cycles if own_left else 0.0)
        written = turns * blocks.blocks * block
    else:
        written = block + (blocks.blocks - 1) * max(0.0, block - step)
        total = feed + (steps - 1) * step + compute + written
    read = sum(each.senders * each.size for each in (left_feed, right_feed) if each.in_dram)
    return ProductTime(
        total,
        steps * compute,
        steps * feed + written,
        written,
        int(steps * read),
        int(steps * (right_step + (0 if here else left_step))),
        cores,
        "unpack" if unpack > multiply else "math",
    )


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
