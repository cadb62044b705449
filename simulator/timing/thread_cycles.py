"""How a core's cycles for an op are shared by its three threads: unpack, math and pack.

The thread that takes longest has the closed form's cycles, which were fitted to a card; the others have theirs by the
same constants. The path of an elementwise op's data was measured as one, so that its unpacking and packing are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opscope.compiler.target.plan import PlacedOp
from opscope.compiler.target.program import Program
from opscope.simulator.timing.block_work import BlockWork
from opscope.simulator.timing.constants import Constants
from opscope.simulator.timing.kernel_cycles import FLAT, arrival, data_path, nearest, path_of, product_of
from opscope.simulator.timing.placed_work import op_work
from opscope.simulator.timing.tile_cycles import parts_of


@dataclass(frozen=True)
class ThreadCycles:
    """Cycles of each thread for one input."""

    unpack: float
    math: float
    pack: float
    arriving: bool = False
    """Whether the longest part of the op computes as fast as its operands come over the NoC, and no faster."""

    @property
    def longest(self) -> float:
        """Cycles of the thread that takes longest."""
        return max(self.unpack, self.math, self.pack)

    @property
    def limiter(self) -> str:
        """The thread that the others wait for, math where it takes as long as another; `noc` if all wait for data."""
        if self.arriving:
            return "noc"
        return max(("math", "unpack", "pack"), key=lambda name: getattr(self, name))


def thread_cycles(program: Program, where: PlacedOp, cycles: Mapping[int, float], constants: Constants) -> ThreadCycles:
    """Returns the shares of a placed op; `cycles` has those of its operation and of each step of a fused op."""
    unpack = math = pack = longest = 0.0
    arriving = False
    for number in (*where.steps, where.operation):
        op = program.operations[number]
        kernel, work, width = op_work(op, program, where)
        parts = parts_of(constants, kernel, op.numerics.math_approx)
        shares = [_shares(constants, part, work, width, where.l1_acc) for part in parts]
        own = [sum(share[i] for share in shares) for i in range(3)]
        most = max(own)
        # The slowest thread has the fitted total, which counts also what threads wait for each other.
        own = [cycles[number] if each == most else min(each, cycles[number]) for each in own]
        unpack, math, pack = unpack + own[0], math + own[1], pack + own[2]
        if cycles[number] > longest:
            longest = cycles[number]
            part = parts[max(range(len(parts)), key=lambda n: max(shares[n]))]
            arriving = arrival(constants, part, work, width, l1_acc=where.l1_acc)
    return ThreadCycles(unpack, math, pack, arriving)


def _shares(constants: Constants, kernel: str, work: BlockWork, width: str, l1_acc: bool) -> tuple[float, float, float]:
    """Returns unpack, math and pack of one kernel with constants, without what they wait for each other."""
    path = work.ublocks * data_path(work, path_of(constants, min(work.operands, 2), width))
    if work.sparse is not None:
        c = nearest(constants.sparse, width)
        sparse, columns = work.sparse, work.ublock_ct
        decode = sparse.strips * (c.strip + work.mblock_m * (c.row + work.mblock_n * c.block))
        math = sparse.tiles * work.mblock_n * max(c.pair + columns * (c.column + c.phase * work.phases), c.least)
        return decode, math, work.ublocks * work.ublock_tiles * c.pack_tile
    if kernel in ("matmul", "depthwise"):
        p = constants.products[kernel] if kernel == "depthwise" else product_of(constants, width, l1_acc=l1_acc)
        tiles, k, steps, again = work.ublock_tiles, work.u_kt, work.ublocks * work.m_k, work.ublocks * (work.m_k - 1)
        inner = k * (p.unpack_pair * work.ublock_rt * (1 + work.ublock_ct) + p.unpack_right * work.ublock_ct)
        unpack = steps * (p.step + inner) + again * (p.reload_ublock + p.reload_tile * tiles)
        math = steps * p.phase * work.phases * k * tiles
        spill = p.spill_ublock + p.spill_tile * tiles
        return unpack, math, work.ublocks * (p.pack_ublock + p.pack_tile * tiles) + again * spill
    if kernel == "reduce_z":
        z = nearest(constants.reduce_z, width)
        math = work.depth * work.ublocks * (z.ublock + z.tile * work.ublock_tiles)
        return path * work.depth, math, path
    if kernel in FLAT:
        r = nearest(constants.reduce, width, f"{kernel}/")
        lines = work.t * (work.mblock_n if kernel == "reduce r" else work.mblock_m)
        tiles = work.ublock_tiles
        math = work.ublocks * max(r.ublock + r.tile * tiles, r.busy * tiles)
        return math / 2, math, max(0.0, lines * r.packed)
    k = nearest(constants.kernels[kernel], width)
    tiles = work.ublock_tiles
    return path, work.ublocks * max(k.ublock + tiles * k.tile, tiles * k.busy), path
