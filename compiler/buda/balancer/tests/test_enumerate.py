"""Enumeration against brute force."""

from __future__ import annotations

import pytest

from opscope.compiler.buda.balancer.budget import Budget, dst_tiles
from opscope.compiler.buda.balancer.enumerate import candidates, grids, micro_block, stream_dirs, stream_factors
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid, divisors, largest_divisor
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.target.system_desc import load_board

GRAYSKULL, WORMHOLE = (Budget.of(load_board(name)) for name in ("grayskull", "wormhole_b0"))
PLAIN = LegalizerOptions()


def test_budgets_are_those_of_tt_buda() -> None:
    assert (GRAYSKULL.grid, GRAYSKULL.l1_usable) == (Grid(10, 12), 577_408)
    assert (WORMHOLE.grid, WORMHOLE.l1_usable) == (Grid(10, 8), 1_027_968)
    assert [(b.dram_channels, b.dram_channel_bytes >> 30) for b in (GRAYSKULL, WORMHOLE)] == [(8, 1), (6, 2)]
    assert (dst_tiles("Float16_b"), dst_tiles("Float32"), dst_tiles("Bfp8_b"), dst_tiles("Int32")) == (8, 4, 8, 4)
    assert Budget.of(load_board("p150")).placeholder


@pytest.mark.parametrize("n", [1, 2, 12, 97, 392, 4096])
def test_divisors(n: int) -> None:
    assert divisors(n) == tuple(d for d in range(1, n + 1) if n % d == 0)
    assert largest_divisor(n, 10) == max(d for d in range(1, 11) if n % d == 0)


@pytest.mark.parametrize(("rt", "ct"), [(1, 1), (7, 3), (56, 2), (49, 2), (5, 12), (64, 64)])
@pytest.mark.parametrize("dst", [1, 4, 8])
def test_micro_block_is_the_largest_that_fits(rt: int, ct: int, dst: int) -> None:
    node = graphs.unary(rt, ct).node("op")
    block = micro_block(node, rt, ct, dst)
    fitting = [(r * c, c) for r in range(1, rt + 1) for c in range(1, ct + 1) if rt % r == ct % c == 0 and r * c <= dst]
    assert (block.tiles, block.ct) == max(fitting)


@pytest.mark.parametrize(("rt", "ct"), [(1, 1), (8, 12), (392, 2), (30, 7)])
def test_candidates_are_all_ways_to_divide(rt: int, ct: int) -> None:
    graph = graphs.unary(rt, ct)
    got = {(g.r, g.c, s.r, s.c) for g, s in candidates(graph, graph.node("op"), GRAYSKULL, PLAIN)}
    every = {
        (r, c, tr, tc)
        for r in range(1, 11) if rt % r == 0
        for c in range(1, 13) if ct % c == 0
        for tr in range(1, rt // r + 1) if rt // r % tr == 0
        for tc in range(1, ct // c + 1) if ct // c % tc == 0
        if tr == 1 or tc == 1
    }  # fmt: skip
    assert got == every
    assert len(list(candidates(graph, graph.node("op"), GRAYSKULL, PLAIN))) == len(every)


def test_directions() -> None:
    deep, flat = graphs.matmul(4, 4, 4, z=3), graphs.matmul(4, 4, 4)
    assert stream_dirs(deep, deep.node("mm"), PLAIN) == ("R", "C", "RZ")
    assert stream_dirs(flat, flat.node("mm"), PLAIN) == ("R", "C")
    convolution = graphs.seed_convolution()
    assert stream_dirs(convolution, convolution.node("mm"), PLAIN) == ("R",)
    assert stream_dirs(convolution, convolution.node("gather"), PLAIN) == ("R", "C", "RZ")


@pytest.mark.parametrize(
    ("fixed", "z", "dirs"), [("rz", 1, ("RZ",)), ("c", 3, ("C",)), ("n", 1, ("R", "C")), ("", 2, ("R", "C", "RZ"))]
)
def test_an_overridden_direction_is_the_only_one(fixed: str, z: int, dirs: tuple[str, ...]) -> None:
    graph = graphs.matmul(4, 4, 4, z=z)
    options = LegalizerOptions(overrides={"mm": OpOverride(stream_dir=fixed)})
    assert stream_dirs(graph, graph.node("mm"), options) == dirs


@pytest.mark.parametrize(
    ("options", "fixed", "factors"),
    [
        ({}, OpOverride(), [1, 2, 4]),  # of the 8 rows that two rows of cores share
        ({"streaming": False}, OpOverride(), [1]),
        ({}, OpOverride(stream_dir="n"), [1]),
        ({}, OpOverride(stream_shape=(4, 1)), [4]),
        ({"manual_streaming": True}, OpOverride(), [1]),
        ({"manual_streaming": True}, OpOverride(stream_dir="r"), [1, 2, 4]),
        ({"manual_streaming": True}, OpOverride(stream_shape=(2, 1)), [2]),
    ],
)
def test_options_and_overrides_say_how_often_an_op_is_cut(options: dict, fixed: OpOverride, factors: list[int]) -> None:
    graph = graphs.matmul(8, 4, 12)
    chosen = LegalizerOptions(overrides={"mm": fixed}, **options)
    got = stream_factors(graph, graph.node("mm"), Grid(2, 3), "R", chosen)
    assert [(stream.dir, stream.r, stream.c) for stream in got] == [("R", r, 1) for r in factors]


def test_grids_of_a_reduction_do_not_divide_what_it_reduces() -> None:
    graph = graphs.reduction(8, 12, "c")
    assert {grid.c for grid in grids(graph.node("op"), GRAYSKULL, PLAIN)} == {1}
    assert {grid.r for grid in grids(graph.node("op"), GRAYSKULL, PLAIN)} == {1, 2, 4, 8}
