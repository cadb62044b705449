"""Cycles that one core takes for its block of an op, from counts of tiles and constants of the arch.

A core's three threads (unpack, math, pack) work on micro blocks one after another, each a step ahead of the next one:
a micro block takes as long as the slowest of them. Where two are about as slow they wait for each other now and then,
for which a p-norm stands instead of the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from opscope.simulator.timing.block_work import BlockWork, SparseTiles
from opscope.simulator.timing.constants import Constants, DataPath, Kernel, Product, Reduce, ReduceZ, Sparse

Entry = TypeVar("Entry")

OVERLAP = 12
"""Exponent of the p-norm."""
BURST = 49_152
"""Bytes of an input that a core's buffers take in at once, ahead of the math. In the measurements 35,840 bytes still
arrive at the full rate of the core and 66,560 no longer."""
DATUMS = 1024
FLAT = frozenset({"reduce r", "reduce c"})
"""Reductions of rows or columns, which pack fewer tiles than they unpack."""
BITS = {"8": 8, "int8": 8, "16": 16, "32": 32}
NEAREST = {"8": ("int8", "16", "32"), "int8": ("8", "16", "32"), "16": ("8", "32", "int8"), "32": ("16", "int8", "8")}
"""Width without measurements -> whose stand in for it, nearest first."""


def slowest(*stages: float) -> float:
    """Returns the cycles of stages that work at the same time: a little more than those of the slowest."""
    most = max(stages)
    return most * sum((stage / most) ** OVERLAP for stage in stages) ** (1 / OVERLAP) if most > 0 else 0.0


def eltwise(work: BlockWork, data: DataPath, kernel: Kernel) -> float:
    """Returns the cycles of an op that treats every tile for itself."""
    step = max(data_path(work, data), kernel.ublock + work.ublock_tiles * kernel.tile)
    return max(kernel.start + work.ublocks * step, work.ublocks * work.ublock_tiles * kernel.busy)


def data_path(work: BlockWork, data: DataPath) -> float:
    """Returns the cycles in which a micro block is unpacked, packed and handed over."""
    tiles = work.ublock_tiles
    path = data.ublock + tiles * data.tile
    return max(path, tiles * data.moved) if _is_long(work) else path


def _is_long(work: BlockWork) -> bool:
    """Whether an input is longer than the buffers, so that its tiles are waited for."""
    return work.ublocks * work.ublock_tiles * work.bits * DATUMS / 8 > BURST


def product(work: BlockWork, c: Product) -> float:
    """Returns the cycles of a dense product."""
    return c.start + work.t * slowest(*product_stages(work, c))


def product_stages(work: BlockWork, c: Product) -> tuple[float, float, float]:
    """Returns the cycles of a macro block on the core, and those in which its left and right operands come."""
    tiles, k = work.ublock_tiles, work.u_kt
    math = c.phase * work.phases * k * tiles
    unpack = c.step + k * (c.unpack_pair * work.ublock_rt * (1 + work.ublock_ct) + c.unpack_right * work.ublock_ct)
    step = slowest(math, unpack)
    if work.m_k == 1:
        block = slowest(step, c.pack_ublock + c.pack_tile * tiles)
    else:
        partial = slowest(step + c.reload_ublock + c.reload_tile * tiles, c.spill_ublock + c.spill_tile * tiles)
        block = max((work.m_k - 1) * partial + step + c.last, work.m_k * step)
    inner = work.m_k * k
    left = work.mblock_m * work.ublock_rt * inner * c.left
    right = work.mblock_n * work.ublock_ct * inner * c.right
    return work.mblock_m * work.mblock_n * block, left, right


def sparse_product(work: BlockWork, sparse: SparseTiles, c: Sparse) -> float:
    """Returns the cycles of a product that skips the zero tiles of its left operand."""
    columns = work.ublock_ct
    decode = sparse.strips * (c.strip + work.mblock_m * (c.row + work.mblock_n * c.block))
    math = sparse.tiles * work.mblock_n * max(c.pair + columns * (c.column + c.phase * work.phases), c.least)
    partial = sparse.ublocks * work.mblock_n * c.reload_tile * work.ublock_tiles
    return c.start + decode + math + partial + work.ublocks * work.ublock_tiles * c.pack_tile


def reduce_z(work: BlockWork, c: ReduceZ) -> float:
    """Returns the cycles of a reduction along z, which copies the first matrix and adds the others."""
    tiles = work.ublock_tiles
    further = slowest(work.ublocks * (c.ublock + c.tile * tiles), c.tile * tiles + c.latency)
    return c.start + work.ublocks * data_path(work, c.first) + (work.depth - 1) * further


def reduce_flat(work: BlockWork, c: Reduce, *, by_rows: bool) -> float:
    """Returns the cycles of a reduction along rows (of each column) or columns; it leaves one line of blocks."""
    packed = work.mblock_n if by_rows else work.mblock_m
    short = c.start + work.ublocks * (c.ublock + c.tile * work.ublock_tiles) + work.t * packed * c.packed
    return max(short, work.ublocks * work.ublock_tiles * c.busy)


def width_of(bits: int, block: bool = True) -> str:
    """Returns the key of a width: `8` has block formats and 8-bit floats, `int8` plain bytes."""
    return ("8" if block else "int8") if bits <= 8 else "16" if bits <= 16 else "32"


def nearest(table: Mapping[str, Entry], width: str, prefix: str = "") -> Entry:
    """Returns the entry of a width, or of the nearest one that was measured. Raises KeyError if there is none."""
    for each in (width, *NEAREST[width]):
        if (entry := table.get(f"{prefix}{each}")) is not None:
            return entry
    raise KeyError(f"{prefix}{width}: no constants of any width")


def path_of(constants: Constants, operands: int, width: str) -> DataPath:
    """Returns the path of an op's data. One that was not measured takes longer by its width, as in TT-Buda's formulas
    of ops with two operands (tt-budabackend, perf_lib/op_model/op_model.cpp: factor 2 for 16 bits, 4 for 32).
    """
    for each in (width, *NEAREST[width]):
        if (entry := constants.data.get(f"{operands}/{each}")) is not None:
            factor = BITS[width] / BITS[each]
            return DataPath(entry.ublock, entry.tile * factor, entry.moved * factor)
    raise KeyError(f"{operands}/{width}: no path of data of any width")


def kernel_cycles(constants: Constants, kernel: str, work: BlockWork, width: str, *, l1_acc: bool = False) -> float:
    """Returns the cycles of a core for its block of a kernel (`exp`, `matmul`, `sparse_matmul`, `reduce_z`, ...).

    Raises KeyError for a kernel without constants; `has` says whether there are some.
    """
    if work.sparse is not None:
        return sparse_product(work, work.sparse, nearest(constants.sparse, width))
    if kernel == "depthwise":
        return product(work, constants.products[kernel])
    if kernel == "matmul":
        return product(work, product_of(constants, width, l1_acc=l1_acc))
    if kernel == "reduce_z":
        return reduce_z(work, nearest(constants.reduce_z, width))
    if kernel in FLAT:
        return reduce_flat(work, nearest(constants.reduce, width, f"{kernel}/"), by_rows=kernel == "reduce r")
    return eltwise(work, path_of(constants, min(work.operands, 2), width), nearest(constants.kernels[kernel], width))


def product_of(constants: Constants, width: str, *, l1_acc: bool) -> Product:
    """Returns the constants of a dense product."""
    entry = constants.products.get(f"{width} l1_acc") if l1_acc else None
    return entry or nearest(constants.products, width)


def arrival(constants: Constants, kernel: str, work: BlockWork, width: str, *, l1_acc: bool = False) -> bool:
    """Whether a core's cycles for its block of a kernel are those in which operands come to it."""
    if work.sparse is not None or kernel == "reduce_z" or kernel in FLAT:
        return False  # their formulas have no such part
    if kernel in ("matmul", "depthwise"):
        entry = constants.products[kernel] if kernel == "depthwise" else product_of(constants, width, l1_acc=l1_acc)
        own, left, right = product_stages(work, entry)
        return max(left, right) > own
    data, math = path_of(constants, min(work.operands, 2), width), nearest(constants.kernels[kernel], width)
    tiles = work.ublock_tiles
    own = max(data.ublock + tiles * data.tile, math.ublock + tiles * math.tile, tiles * math.busy)
    return _is_long(work) and tiles * data.moved > own


def has(constants: Constants, kernel: str) -> bool:
    """Whether there are constants for a kernel."""
    if kernel in FLAT:
        return bool(constants.reduce)
    tables = {"matmul": constants.products, "sparse_matmul": constants.sparse, "reduce_z": constants.reduce_z}
    return bool(tables[kernel]) if kernel in tables else kernel in constants.kernels or kernel in constants.products
