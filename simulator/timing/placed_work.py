"""Counts of tiles of a placed op: what of it one core computes, for one input."""

from __future__ import annotations

import numpy as np

from opscope.compiler.target.formats import FORMATS, TILE
from opscope.compiler.target.plan import PlacedOp
from opscope.compiler.target.program import (
    MatmulParams,
    Operation,
    Program,
    ReduceParams,
    SliceParams,
    SparseMatmulParams,
)
from opscope.simulator.kernels.buda import picked_rows
from opscope.simulator.kernels.matmul import FIDELITIES
from opscope.simulator.timing.block_work import BlockWork, SparseTiles
from opscope.simulator.timing.tile_cycles import width


def op_work(op: Operation, program: Program, where: PlacedOp) -> tuple[str, BlockWork, str]:
    """Returns the kernel of a placed op, or of a step of one, its counts of tiles and the key of its width."""
    inputs = [program.tensors[t] for t in op.inputs]
    out = program.tensors[op.outputs[0]]
    widest = max(_formats(op, program, where), key=lambda name: FORMATS[name].bits)
    b = where.block
    kernel, m_k, u_kt, depth, sparse = op.kernel, where.m_k, where.u_kt, 1, None
    mblock_m, mblock_n, rows, cols = b.mblock_m, b.mblock_n, b.ublock_rt, b.ublock_ct
    match op.params:
        case MatmulParams():
            kernel = "depthwise" if op.kernel == "depthwise" else "matmul"
        case SparseMatmulParams():
            kernel, sparse = "sparse_matmul", busiest_share(op.params, where)
        case SliceParams():
            kernel = "splice"
        case ReduceParams(dims=(0,)):
            kernel, depth = "reduce_z", max(1, inputs[0].shape[0] // max(1, out.shape[0]))
        case ReduceParams(dims=(1,)):
            kernel, (mblock_m, rows) = "reduce r", _reduced(inputs[0].shape[1], where)
        case ReduceParams(dims=(2,)):
            kernel, (mblock_n, cols) = "reduce c", _reduced(inputs[0].shape[2], where)
        case _:
            m_k = u_kt = 1
    if kernel == "relu":  # the packer does it
        kernel = "typecast"
    operands = min(2, len(inputs))
    work = BlockWork(
        b.t,
        mblock_m,
        mblock_n,
        rows,
        cols,
        m_k,
        u_kt,
        FIDELITIES[op.numerics.fidelity],
        depth,
        operands,
        FORMATS[widest].bits,
        sparse,
    )
    return kernel, work, width(widest)


def _formats(op: Operation, program: Program, where: PlacedOp) -> list[str]:
    """Returns the formats of an op's operands and result, as its cores hold them; of a step of a fused op, its own."""
    formats = [buffer.data_format for buffer in where.buffers if buffer.role in ("input", "output", "parameter")]
    if formats and not where.steps:
        return formats
    return [program.tensors[t].data_format for t in (*op.inputs, *op.outputs)]


def _reduced(size: int, where: PlacedOp) -> tuple[int, int]:
    """Returns blocks and tiles of each along the dimension that a reduction of `size` elements reads."""
    tiles = -(-size // TILE)
    step = where.u_kt if tiles % where.u_kt == 0 else 1
    return tiles // step, step


def busiest_share(params: SparseMatmulParams, where: PlacedOp) -> SparseTiles:
    """Returns the tiles of a convolution's picker that the busiest row of cores multiplies."""
    rows = picked_rows(params)
    there = np.flatnonzero(rows >= 0)
    pairs = np.unique(np.stack([there // TILE, rows[there] // TILE], 1), axis=0)
    row, col = pairs[:, 0], pairs[:, 1] // max(1, where.u_kt)
    piece = row // (where.block.mblock_m * where.block.ublock_rt)
    core, t = piece % where.grid[0], piece // where.grid[0]
    best = SparseTiles(0, 0, 0)
    for number in np.unique(core):
        own = core == number
        blocks = np.unique(np.stack([row[own] // where.block.ublock_rt, col[own]], 1), axis=0)
        strips = np.unique(np.stack([t[own], col[own]], 1), axis=0)
        if (tiles := int(own.sum())) > best.tiles:
            best = SparseTiles(tiles, len(blocks), len(strips))
    return best
