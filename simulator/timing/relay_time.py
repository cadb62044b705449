"""Cycles of a product whose blocks go from core to core: tt-metal's minimal_matmul.

The first core of each row and column reads a block of an operand from DRAM and hands it on, as every core after it
does; a core hands on a block before it asks for the next one. So each step takes a read and a hand-over, or the product
where that takes longer, and the last core is as many hand-overs behind the first one as there are cores between them.
All figures are `movement.py`'s and `card_rates.py`'s; nothing is fitted.
"""

from __future__ import annotations

from opscope.compiler.target.formats import FORMATS
from opscope.compiler.target.product_blocks import Product
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.card_rates import PRODUCTS
from opscope.simulator.timing.movement import MOVEMENT
from opscope.simulator.timing.product_time import ProductTime
from opscope.simulator.timing.work_split import RelayBlocks


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
