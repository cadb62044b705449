"""Which tile of a planned op's result passes a byte of a core's output buffer, and which lies at one of a queue.

A core makes the tiles of its part of the result in the order of its plan: pieces as `simulator/placed.py` deals them,
in each the micro blocks of the macro block row by row (`ublock_order` c: column by column), in each micro block its
tiles row by row. The output buffer holds so many tiles; tile n lies in slot n modulo that number. A queue has one
block of that form for each core of its grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from opscope.compiler.target.plan import BlockPlan, PlacedOp, Plan, QueuePlan
from opscope.compiler.target.system_desc import SystemDesc
from opscope.simulator.cores_of import Core
from opscope.simulator.placed import allocate

Tile = tuple[int, int, int]
"""Matrix, and row and column of the tile in it."""


def tiles_of_core(
    core: Core, grid: tuple[int, int], stream: tuple[int, int], matrices: int, block: BlockPlan, order: str = "r"
) -> Iterator[Tile]:
    """The tiles of one core of the op model's grid, in the order in which it makes them; also those of padding."""
    high, wide = block.mblock_m * block.ublock_rt, block.mblock_n * block.ublock_ct
    blocks = [(m, n) for m in range(block.mblock_m) for n in range(block.mblock_n)]
    if order == "c":
        blocks.sort(key=lambda place: (place[1], place[0]))
    for tr, tc, z in itertools.product(range(stream[0]), range(stream[1]), range(matrices)):
        top, left = (tr * grid[0] + core[0]) * high, (tc * grid[1] + core[1]) * wide
        for m, n in blocks:
            for r, c in itertools.product(range(block.ublock_rt), range(block.ublock_ct)):
                yield z, top + m * block.ublock_rt + r, left + n * block.ublock_ct + c


def in_output_buffer(
    op: PlacedOp, system: SystemDesc, pipe_reserve: int, core: Core, address: int, matrices: int
) -> tuple[list[Tile], int] | str:
    """The tiles that pass the slot at an address of a core's L1, and the byte in them; else what lies there."""
    for start, buffer in zip(allocate(op, system, pipe_reserve), op.buffers, strict=True):
        if not start <= address < start + buffer.bytes:
            continue
        if buffer.role != "output":
            return f"{op.name}'s buffer of {buffer.role} {buffer.operand}, whose tiles the simulator does not hold"
        slot, byte = divmod(address - start, buffer.tile_bytes)
        row, col = core[0] - op.row, core[1] - op.col
        model = (col, row) if op.transposed else (row, col)
        tiles = tiles_of_core(model, op.grid, op.stream, matrices, op.block, op.ublock_order)
        return list(itertools.islice(tiles, slot, None, buffer.tiles)), byte
    return ""


def in_queue(
    queue: QueuePlan, plan: Plan, channel: int, address: int, tile_bytes: int, matrices: int
) -> tuple[Tile, int] | str | None:
    """The tile at an address of a DRAM channel in a queue and the byte in it; words for what is there else; None if the
    queue does not lie there."""
    source = next((op for op in plan.ops if op.name == queue.source), None)
    for number, place in enumerate(queue.allocations):
        if place.channel != channel or not 0 <= address - place.address < queue.entry_bytes * queue.entries:
            continue
        entry, offset = divmod(address - place.address, queue.entry_bytes)
        if entry:
            return f"entry {entry} of queue {queue.name}, which a run of one input does not fill"
        index, byte = divmod(offset, tile_bytes)
        # Only a queue with its op's own block has the op's pieces in time.
        streams = source is not None and source.block == queue.block and source.grid == queue.grid
        stream, order = (source.stream, source.ublock_order) if source and streams else ((1, 1), "r")
        tiles = tiles_of_core(divmod(number, queue.grid[1]), queue.grid, stream, matrices, queue.block, order)
        tile = next(itertools.islice(tiles, index, None), None)
        return f"the end of queue {queue.name}, after its tiles" if tile is None else (tile, byte)
    return None
