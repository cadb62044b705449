"""The formulas by hand, and what they must say of blocks."""

from __future__ import annotations

import dataclasses

import pytest

from opscope.simulator.timing import kernel_cycles as formulas
from opscope.simulator.timing.arch_constants import CONSTANTS, GRAYSKULL, WORMHOLE_B0
from opscope.simulator.timing.block_work import BlockWork, SparseTiles
from opscope.simulator.timing.constants import DataPath, Kernel, Product, Reduce, ReduceZ, Sparse
from opscope.simulator.timing.kernel_cycles import kernel_cycles
from opscope.simulator.timing.tile_cycles import parts_of

WORK = BlockWork(2, 3, 1, 2, 4, 1, 1, 2, bits=8)
"""Two macro blocks of 3 blocks of 2x4 tiles, in bytes exactly what the buffers take in at once."""
PATH = DataPath(100, 10, 50)
NOTHING = Product(*[0.0] * 14)


def test_a_micro_block_takes_as_long_as_its_slowest_thread() -> None:
    assert WORK.ublocks * WORK.ublock_tiles * 1024 == formulas.BURST
    assert formulas.eltwise(WORK, PATH, Kernel(7, 1, 2)) == 7 + 6 * (100 + 8 * 10)
    assert formulas.eltwise(WORK, PATH, Kernel(7, 1, 40)) == 7 + 6 * (1 + 8 * 40)
    longer = dataclasses.replace(WORK, mblock_m=4)
    assert formulas.eltwise(longer, PATH, Kernel(7, 1, 2)) == 7 + 8 * 8 * 50


def test_a_long_input_hides_what_begins_it() -> None:
    """A thread that is never idle decides: what begins an input and a micro block is seen of short ones alone."""
    tiles = WORK.ublocks * WORK.ublock_tiles
    assert formulas.eltwise(WORK, PATH, Kernel(200, 50, 30, 41)) == tiles * 41
    assert formulas.eltwise(WORK, PATH, Kernel(200, 50, 30, 40)) == 200 + 6 * (50 + 8 * 30)
    assert formulas.reduce_flat(WORK, Reduce(10, 0, 2, 0, 9), by_rows=True) == tiles * 9
    assert formulas.reduce_flat(WORK, Reduce(10, 0, 9, 0, 9), by_rows=True) == 10 + tiles * 9


def test_a_product_by_hand() -> None:
    """Steps of 5 tiles: 2 phases of 40 products of tiles a block; unpacking 2 rows of 5 tiles with 4 of the right."""
    once = dataclasses.replace(WORK, u_kt=5)
    assert formulas.product(once, dataclasses.replace(NOTHING, phase=16)) == pytest.approx(6 * 16 * 2 * 40)
    assert formulas.product(once, dataclasses.replace(NOTHING, unpack_pair=3)) == pytest.approx(6 * 3 * 5 * 2 * 5)
    assert formulas.product(once, dataclasses.replace(NOTHING, unpack_right=3)) == pytest.approx(6 * 3 * 5 * 4)
    assert formulas.product(once, dataclasses.replace(NOTHING, pack_tile=9, pack_ublock=5)) == pytest.approx(6 * 77)
    assert formulas.product(once, dataclasses.replace(NOTHING, left=7, start=9)) == pytest.approx(9 + 2 * 30 * 7)
    assert formulas.product(once, dataclasses.replace(NOTHING, right=7)) == pytest.approx(2 * 20 * 7)
    steps = dataclasses.replace(once, m_k=3)
    partial = dataclasses.replace(NOTHING, phase=1, reload_tile=4, reload_ublock=2, last=11)
    assert formulas.product(steps, partial) == pytest.approx(6 * (2 * (80 + 34) + 80 + 11))
    spilled = dataclasses.replace(NOTHING, phase=1, spill_tile=100, spill_ublock=1)
    assert formulas.product(steps, spilled) == pytest.approx(6 * (2 * 801 + 80))


def test_what_overlaps_costs_a_little_more_than_the_slowest() -> None:
    assert formulas.slowest(100.0, 100.0) == pytest.approx(100 * 2 ** (1 / 12))
    assert formulas.slowest(100.0, 1.0) == pytest.approx(100)
    assert formulas.slowest(0.0, 0.0) == 0


def test_reductions_and_sparse_products_by_hand() -> None:
    deep = dataclasses.replace(WORK, depth=3)
    assert formulas.reduce_z(deep, ReduceZ(1, PATH, 5, 20, 0)) == pytest.approx(1 + 6 * 180 + 2 * 6 * (5 + 160))
    small = BlockWork(depth=2)
    assert formulas.reduce_z(small, ReduceZ(0, PATH, 0, 20, 500)) == pytest.approx(110 + 520)
    flat = Reduce(1, 10, 2, 1000)
    assert formulas.reduce_flat(WORK, flat, by_rows=True) == 1 + 6 * 26 + 2 * 1 * 1000
    assert formulas.reduce_flat(WORK, flat, by_rows=False) == 1 + 6 * 26 + 2 * 3 * 1000
    c = Sparse(1e1, 1e2, 1e3, 3, 5, 7, 60, 2, 4, 9)
    decode = 2 * (1e1 + 3 * (1e2 + 1e3))
    math, partial, packed = 10 * (3 + 4 * (5 + 14)), 6 * 2 * 8, 48 * 4
    assert formulas.sparse_product(WORK, SparseTiles(10, 6, 2), c) == 9 + decode + math + partial + packed
    least = dataclasses.replace(c, least=600)
    assert formulas.sparse_product(WORK, SparseTiles(10, 6, 2), least) == 9 + decode + 6000 + partial + packed


@pytest.mark.parametrize("arch", sorted(CONSTANTS))
def test_blocks_decide_cycles(arch: str) -> None:
    """As many tiles in smaller blocks, more steps or more phases take longer."""
    constants = CONSTANTS[arch]
    wide, narrow = BlockWork(1, 2, 2, 2, 4, 1, 8), BlockWork(1, 4, 8, 1, 1, 1, 8)
    for kernel in ("exp", "typecast", "matmul"):
        assert kernel_cycles(constants, kernel, narrow, "16") > kernel_cycles(constants, kernel, wide, "16")
    by_steps = [kernel_cycles(constants, "matmul", BlockWork(1, 2, 2, 2, 4, n, 8 // n), "8") for n in (1, 2, 4, 8)]
    assert by_steps == sorted(set(by_steps))
    by_phases = [kernel_cycles(constants, "matmul", BlockWork(1, 2, 2, 2, 4, 1, 8, n), "16") for n in (1, 2, 3, 4)]
    assert by_phases == sorted(set(by_phases))


def test_grayskull_has_its_own_constants() -> None:
    """Twice Wormhole's 16 cycles a product of tiles; its SFPU takes longer for exp and less for sqrt."""
    work = BlockWork(1, 4, 4, 2, 4, 1, 8, bits=8)
    both = [
        [kernel_cycles(CONSTANTS[a], k, work, "8") for a in ("grayskull", "wormhole_b0")] for k in ("matmul", "exp")
    ]
    assert 1.6 < both[0][0] / both[0][1] < 2.4
    assert 1.4 < both[1][0] / both[1][1] < 1.6
    assert kernel_cycles(CONSTANTS["grayskull"], "sqrt", work, "8") < 0.3 * kernel_cycles(
        WORMHOLE_B0, "sqrt", work, "8"
    )
    assert "tanh" not in GRAYSKULL.kernels
    assert CONSTANTS["grayskull"].kernels["tanh"] == WORMHOLE_B0.kernels["tanh"]


def test_a_width_without_measurements_takes_the_nearest_ones() -> None:
    assert formulas.nearest({"16": 1, "8": 2}, "32") == 1
    assert formulas.nearest({"8": 2}, "16") == 2
    with pytest.raises(KeyError, match="no constants of any width"):
        formulas.nearest({}, "16")
    measured = WORMHOLE_B0.data["2/8"]
    assert formulas.path_of(WORMHOLE_B0, 2, "16") == DataPath(measured.ublock, 2 * measured.tile, 2 * measured.moved)


def test_a_kernel_without_a_figure_costs_what_it_consists_of() -> None:
    assert parts_of(WORMHOLE_B0, "exp", approximate=True) == ("exp approx",)
    assert parts_of(WORMHOLE_B0, "rsqrt") == ("sqrt", "reciprocal")
    assert parts_of(WORMHOLE_B0, "softmax") == ("reduce r", "subtract", "exp", "reduce r", "multiply")
    assert parts_of(WORMHOLE_B0, "permute") == ("typecast",)
    assert parts_of(WORMHOLE_B0, "floor") == ("abs",)
