"""Cycles of a convolution that no plan places, as tt-metal does it: windows of the image become rows of a product.

Each core holds its part of the image in L1 and reads from it, for each pixel of its part of the result, a run of pixels
per row of the window (each pixel of the window alone where it is dilated); then it turns them into tiles, for which the
weights come by multicast from the core that reads them from DRAM. The three follow one another: the profiles of ten
convolutions on a p100 are sums of them, and no maximum fits. Figures of transfers are `movement.py`'s, those of the
product `card_rates.py`'s; the cycles of a read were fitted to three of the ten, of 16, 64 and 256 bytes a pixel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.product_blocks import subblock_of
from opscope.compiler.target.program import Conv2dParams, Numerics, TensorDesc
from opscope.compiler.target.system_desc import Profile
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.card_rates import CARD_RATES, PRODUCTS
from opscope.simulator.timing.movement import MOVEMENT
from opscope.simulator.timing.work_split import Asked, ConvBlocks, Work, shard_cores

CHANNELS = 8
"""Channels to a multiple of which an image in L1 is filled up."""


@dataclass(frozen=True)
class ConvTime:
    """The cycles of a convolution whose image, and result, lie in L1."""

    windows: float
    product: float
    weights: float
    noc_bytes: float
    """That a core receives."""
    cores: int
    started: int

    @property
    def total(self) -> float:
        """Cycles of all three."""
        return self.windows + self.product + self.weights


def conv_time(params: Conv2dParams, work: Work, asked: Asked) -> ConvTime:
    """Returns the time of a convolution without groups."""
    image, weights = work.inputs[:2]
    numerics, system = work.op.numerics, work.system
    blocks = asked.conv or conv_blocks(weights, work.outputs[0], numerics, work.profile)
    movement, own = MOVEMENT[system.arch], PRODUCTS[system.arch]
    high, wide, channels, _ = weights.shape
    channels = -(-channels // CHANNELS) * CHANNELS // blocks.depth_cores
    pixel = channels * FORMATS[image.data_format].datum_bytes()
    runs, pixels = (high, wide) if params.dilation[1] == 1 else (high * wide, 1)
    reads = blocks.rows * TILE * runs
    windows = reads * (CARD_RATES[system.arch].window + pixels * pixel / movement.l1_read.stream)
    right = FORMATS[weights.data_format].tile_bytes
    left = FORMATS["Float32" if image.data_format == "Float32" else "Float16_b"].tile_bytes
    unpack = (left / blocks.subblock[1] + right) / own.unpacked
    each = max(system.cycles_per_tile_matmul * FIDELITIES[numerics.fidelity] + own.overhead, unpack)
    tiles = blocks.depth * blocks.columns
    lines = max(1, -(-weights.shape[-1] // TILE) // blocks.columns)
    receivers = max(1, blocks.cores // lines - 1)
    brought = tiles * right / movement.scattered + movement.multicast.to(receivers, linked=True).cycles(
        1, tiles * right
    )
    return ConvTime(
        windows,
        blocks.rows * blocks.columns * blocks.depth * each,
        movement.dram_read.latency + brought,
        tiles * right,
        blocks.cores,
        asked.cores or blocks.cores,
    )


def conv_blocks(weights: TensorDesc, out: TensorDesc, numerics: Numerics, profile: Profile) -> ConvBlocks:
    """Returns how a convolution is cut: by the result's shards, else with its rows dealt to all cores where there are
    as many rows of tiles, and by rows and columns where not (tt-metal's height and block sharding).
    """
    *window, channels, columns = weights.shape
    rows = -(-math.prod(out.shape[:-1]) // TILE)
    across = -(-columns // TILE)
    deep = -(-math.prod(window) * -(-channels // CHANNELS) * CHANNELS // TILE)
    if shard_cores(out):
        down, beside = min(out.grid[0], rows), min(out.grid[1], across)
    elif rows >= profile.cores // 2:
        down, beside = min(profile.cores, rows), 1
    else:
        down, beside = min(profile.grid[0], rows), min(profile.grid[1], across)
    part, width = -(-rows // down), -(-across // beside)
    cores = -(-rows // part) * -(-across // width)
    wide = 4 if numerics.dst_format in ("Float32", "Int32") else 8
    return ConvBlocks(cores, part, width, deep, subblock_of(part, width, wide, rows_at_a_time=1), beside)
