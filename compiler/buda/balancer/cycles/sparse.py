"""Cycles of a sparse matmul: the sums over its stages, and the measured table for Wormhole's newer formula.

Source: tenstorrent/tt-budabackend, perf_lib/op_model/op_model.cpp and params/wormhole_b0_sparse_v2_formula_params/.
"""

from __future__ import annotations

from dataclasses import dataclass

from opscope.compiler.buda.balancer.cycles.formulas import MOST, Work
from opscope.compiler.buda.balancer.cycles.weights import weights
from opscope.compiler.buda.sparse_pattern import SparseShare
from opscope.compiler.target.formats import number_format

STRIP_DECODE, UBLOCK_DECODE, NZ_UBLOCK_DECODE = 100, 80, 80
"""Cycles to decode a strip with tiles, a block of such a strip, a block with tiles."""
FIDELITY_WEIGHT = {"LoFi": 1.0, "HiFi2": 1.0, "HiFi2_B": 1.0, "HiFi3": 1.2, "HiFi4": 1.7}
"""Measured relative to HiFi2. Decoding does not take longer, so this is less than the number of phases."""
_WIDE = {8: ((26, 45, 40), (26, 45, 36), (26, 45, 35)), 16: ((38, 45, 42), (37, 45, 40), (38, 45, 40))}
_TABLE: dict[int, dict[tuple[int, int], tuple[tuple[int, int, int], ...]]] = {
    8: {
        (1, 1): ((335, 140, 150), (100, 136, 117), (55, 140, 115)),
        (1, 2): ((125, 110, 100), (50, 110, 90), (26, 110, 80)),
        (1, 4): ((26, 50, 50),) * 3,
        (1, 8): _WIDE[8],
        (2, 1): ((125, 110, 100), (55, 110, 90), (55, 110, 80)),
        (2, 2): ((26, 50, 50),) * 3,
        (2, 4): _WIDE[8],
        (4, 1): ((55, 45, 35),) * 3,
        (4, 2): _WIDE[8],
        (8, 1): ((55, 45, 35),) * 3,
    },
    16: {
        (1, 1): ((335, 142, 150), (100, 140, 123), (55, 140, 120)),
        (1, 2): ((125, 110, 100), (50, 110, 90), (38, 110, 80)),
        (1, 4): ((38, 50, 50),) * 3,
        (1, 8): _WIDE[16],
        (2, 1): ((125, 110, 100), (55, 110, 90), (55, 110, 80)),
        (2, 2): ((38, 50, 50),) * 3,
        (2, 4): _WIDE[16],
        (4, 1): ((55, 45, 40),) * 3,
        (4, 2): _WIDE[16],
        (8, 1): ((55, 45, 35),) * 3,
    },
}
"""Bits of the data format -> micro block -> inner blocks of 1, 4, 8 tiles: cycles per tile of math, reload, pack."""


@dataclass(frozen=True)
class SparseRows:
    """A sparse product beside its blocks."""

    mblock_n: int
    share: SparseShare
    """What the fullest row of cores has of the left operand."""
    mean_tiles: int
    """The average number of non-zero tiles of a row of cores."""


def estimate(arch: str, fidelity: str, data_format: str, work: Work, rows: SparseRows) -> int:
    """Returns the cycles of one core."""
    fmt = number_format(data_format)
    tabled = (fmt.bits == 16 and fidelity != "LoFi") or (fmt.name.startswith("Bfp8") and fidelity == "LoFi")
    if arch == "wormhole_b0" and tabled:
        return by_table(work, rows.mblock_n, rows.share, fidelity, fmt.bits)
    return by_stages(work, rows.mblock_n, rows.mean_tiles, weights(arch, "matmul_sparse", frozenset()))


def by_table(work: Work, mblock_n: int, share: SparseShare, fidelity: str, bits: int) -> int:
    """Computes Wormhole's newer formula."""
    math, reload, pack = _stage_cycles(work, bits)
    blocks = share.nz_strips * (work.ublocks // mblock_n)
    decode = blocks * UBLOCK_DECODE + share.nz_ublocks * NZ_UBLOCK_DECODE + share.nz_strips * STRIP_DECODE
    products = int(share.nz_tiles * mblock_n * work.u_ct * math * FIDELITY_WEIGHT[fidelity])
    reloads = share.nz_ublocks * mblock_n * work.u_ct * work.u_rt * reload if work.m_k > 1 else 0
    return min(MOST, decode + products + reloads + work.t * work.tiles * pack)


def _stage_cycles(work: Work, bits: int) -> tuple[int, int, int]:
    down = {n: max(s for s in (1, 2, 4, 8) if s <= n) for n in range(1, 9)}
    steps = _TABLE[bits][down[work.u_rt], down[work.u_ct]]
    return steps[0 if work.u_kt < 4 else 1 if work.u_kt < 8 else 2]


def by_stages(work: Work, mblock_n: int, nz_tiles: int, constants: tuple[float, ...]) -> int:
    """Computes the older formula, which derives every stage from counts."""
    tile, reload, configure, wait, pack_wait, pack, ublock, nz_ublock, nz_tile = constants
    mblock_m, micro = work.ublocks // mblock_n, work.u_rt * work.u_ct
    nz_ublocks = nz_tiles // (work.t * micro)
    ublocks = max(work.t * work.m_k * mblock_m, nz_ublocks)
    each_reload = configure + reload * micro
    math = nz_tiles * mblock_n * work.u_ct * tile * work.phases
    reloads = (ublocks * wait + nz_ublocks * each_reload) * mblock_n
    if work.m_k > 1:
        reloads += mblock_m * work.t * each_reload * mblock_n
    packs = pack_wait * (ublocks - nz_ublocks) * mblock_n + pack * 2 * work.t * work.tiles
    decode = nz_tiles * nz_tile * (2 + mblock_n) + ublocks * ublock + nz_ublocks * nz_ublock
    return min(MOST, int(math + reloads + packs + decode))
