"""Cycles of a matrix product that no plan places: feeding each step, computing it, writing the result.

A core of each row reads the step's part of the left operand from DRAM and multicasts it along the row, one of each
column does so with the right operand; meanwhile the step before is computed. Results in DRAM are written block by
block: the last one after everything else, and each before it as far as one step does not hide it, since the same
processor reads the next operands. The figures of transfers are those of `movement.py`; four constants are fitted to one
of each two neighbouring n150 rows of tt-metal's tech_reports/GEMM_FLOPS by `python -m ci.benchmarks.fit_products`, none
to p150's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.program import Numerics, TensorDesc
from opscope.compiler.target.system_desc import Profile, SystemDesc
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.movement import MOVEMENT
from opscope.simulator.timing.product_blocks import ProductBlocks, choose, in_shards

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
    """Bytes per cycle that all cores write to DRAM, tile by tile."""


N150 = ProductConstants(3.7, 43.0, 80.0, 101.0)
PRODUCTS: Mapping[str, ProductConstants] = {
    "wormhole_b0": N150,
    # Twice the bytes per cycle, as its NoC has. tt-isa-documentation (BlackholeA0/TensixTile) says that L1 has more
    # bandwidth than Wormhole's, not how much: an assumption.
    "blackhole": ProductConstants(N150.overhead, 2 * N150.unpacked, N150.subblock, 2 * N150.written),
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
) -> ProductTime:
    """Returns the time of a product of `tiles` rows, columns and depth."""
    blocks = choose(tiles, left, right, out, numerics, profile)
    own = constants or PRODUCTS[system.arch]
    left_step = blocks.block_rows * blocks.step * FORMATS[left.data_format].tile_bytes
    right_step = blocks.block_columns * blocks.step * FORMATS[right.data_format].tile_bytes
    steps = blocks.blocks * -(-tiles[2] // blocks.step)
    bytes_per_clock = system.dram_gb_per_s * system.dram_efficiency / system.clock_ghz
    here = _stays(left, out, blocks)
    left_senders = 1 if blocks.line == "left" else blocks.grid[0]
    right_senders = 1 if blocks.line == "right" else blocks.grid[1]
    left_read = left_senders * left_step if left.buffer_type == "dram" else 0
    right_read = right_senders * right_step if right.buffer_type == "dram" else 0
    feed = max(
        0.0 if here else _feed(left_step, system.arch, left_read / bytes_per_clock, alone=blocks.line == "right"),
        _feed(right_step, system.arch, right_read / bytes_per_clock, alone=blocks.line == "left"),
        (left_read + right_read) / bytes_per_clock,
    )
    math = system.cycles_per_tile_matmul * FIDELITIES[numerics.fidelity] + own.overhead
    unpack = FORMATS[right.data_format].tile_bytes / own.unpacked
    compute = _step(blocks, _together(math, unpack), own)
    step = _together(feed, compute)
    last = blocks.grid[0] * blocks.grid[1] * blocks.block_rows * blocks.block_columns
    written = last * FORMATS[out.data_format].tile_bytes / own.written if out.buffer_type == "dram" else 0.0
    alone = written + (blocks.blocks - 1) * max(0.0, written - step)
    return ProductTime(
        feed + (steps - 1) * step + compute + alone,
        steps * compute,
        steps * feed + alone,
        alone,
        int(steps * (left_read + right_read)),
        int(steps * (right_step + (0 if here else left_step))),
        blocks.grid[0] * blocks.grid[1],
        "unpack" if unpack > math else "math",
    )


def _feed(size: float, arch: str, banks: float, *, alone: bool) -> float:
    """Cycles in which a step of an operand is read and multicast. `banks`: cycles in which all banks of DRAM serve the
    operand's senders, 0 for one in L1; `alone`: each core reads its own.
    """
    movement = MOVEMENT[arch]
    # Tiles come from all banks in turn, so that the core's interface or all banks limit them, never one bank.
    read = movement.dram_read.latency + max(size / movement.l1_read.stream, banks) if banks else 0.0
    return read + (0.0 if alone else movement.multicast.latency + size / movement.linked)


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
