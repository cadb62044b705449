"""Enumeration against brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opscope.compiler.buda.balancer.budget import Budget, dst_tiles
from opscope.compiler.buda.balancer.enumerate import (
    candidates,
    consumes_z_major,
    grids,
    micro_block,
    parallelization,
    stream_dirs,
    stream_factors,
)
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid, UBlock, divisors, largest_divisor
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board

GRAYSKULL, WORMHOLE = (Budget.of(load_board(name)) for name in ("grayskull", "wormhole_b0"))
PLAIN = LegalizerOptions()


def test_budgets_are_those_of_tt_buda() -> None:
    assert (GRAYSKULL.grid, GRAYSKULL.l1_usable) == (Grid(10, 12), 577_408)
    assert (WORMHOLE.grid, WORMHOLE.l1_usable) == (Grid(9, 8), 1_027_968)
    assert [(b.dram_channels, b.dram_channel_bytes >> 30) for b in (GRAYSKULL, WORMHOLE)] == [(8, 1), (6, 2)]
    assert (dst_tiles("Float16_b"), dst_tiles("Float32"), dst_tiles("Bfp8_b"), dst_tiles("Int32")) == (8, 4, 8, 4)
    assert Budget.of(load_board("p150")).placeholder


@pytest.mark.parametrize("n", [1, 2, 4, 6, 12, 97, 392, 4096])
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
        for r in range(1, 11)
        if rt % r == 0
        for c in range(1, 13)
        if ct % c == 0
        for tr in range(1, rt // r + 1)
        if rt // r % tr == 0
        for tc in range(1, ct // c + 1)
        if ct // c % tc == 0
        if tr == 1 or tc == 1
    }
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
    for dim, rows, columns in (("c", [1, 2, 4, 8], [1]), ("r", [1], [1, 2, 3, 4, 6, 12])):
        graph = graphs.reduction(8, 12, dim)
        assert grids(graph.node("op"), GRAYSKULL, PLAIN) == tuple(Grid(r, c) for r in rows for c in columns)
    flat = OpSpec("exp", reduce_dim="c")
    assert [parallelization(Node("op", NodeKind.OP, graphs.shape(8, 12, 4), op=spec)) for spec in (Z_SUM, flat)] == [
        (8, 12),
        (8, 12),
    ]


def test_grids_fit_the_chip_and_are_those_that_are_asked_for() -> None:
    node = graphs.unary(20, 48).node("op")
    columns = [1, 2, 3, 4, 6, 8, 12]
    assert grids(node, GRAYSKULL, PLAIN) == tuple(Grid(r, c) for r in (1, 2, 4, 5, 10) for c in columns)
    assert grids(node, GRAYSKULL, LegalizerOptions(one_row=True)) == tuple(Grid(1, c) for c in columns)
    fixed = LegalizerOptions(overrides={"op": OpOverride(Grid(10, 12))})
    assert grids(node, GRAYSKULL, fixed) == (Grid(10, 12),)
    message = "op: expected a grid that divides 20x48 tiles and fits 9x8, got 10x12; try 5x3, 5x4, 5x6, 5x8"
    with pytest.raises(CompilerInputError, match=f"^{message}$"):
        grids(node, WORMHOLE, fixed)


@pytest.mark.parametrize(
    ("between", "kind", "expected"),
    [
        ("vslice(4);hstack(4)", "sparse_matmul", True),
        ("vslice(4);hstack(2);hstack(2)", "sparse_matmul", True),
        ("vslice(2);hstack(2);vslice(4);hstack(4)", "sparse_matmul", True),
        ("vslice(4);hstack(2)", "sparse_matmul", False),
        ("vslice(4)", "sparse_matmul", False),
        ("hslice(2);vstack(2)", "sparse_matmul", False),
        ("vslice(4);hstack(4);transpose", "sparse_matmul", False),
        ("", "sparse_matmul", False),
        ("vslice(4);hstack(4)", "exp", False),
    ],
)
def test_rows_that_become_z_and_then_columns_are_a_convolution(between: str, kind: str, expected: bool) -> None:
    pattern = SparsePattern.of([(0, 0)], 8 * 32, 8 * 32)
    spec = OpSpec(kind, sparse=pattern if kind == "sparse_matmul" else None)
    graph = graphs.then_unary(8, 8, between)
    nodes = tuple(replace(node, op=spec) if node.name == "first" else node for node in graph.nodes)
    edges = (Edge("x", "first", 0), Edge("x", "first", 1), *graph.edges[1:]) if spec.sparse else graph.edges
    graph = BudaGraph("pair", nodes, edges)
    (edge,) = graph.operands("second")
    assert consumes_z_major(graph, edge) is expected
    assert not consumes_z_major(graph, graph.operands("first")[0])
    assert stream_dirs(graph, graph.node("second"), PLAIN)[:2] == (("R",) if expected else ("R", "C"))


def test_a_stack_needs_slices() -> None:
    graph = graphs.stacked_unary(4, 2, "hstack(2)")
    picker = replace(graph.nodes[0], kind=NodeKind.OP, op=OpSpec("sparse_matmul", sparse=ONE_TILE))
    sources = (Node("p", NodeKind.CONSTANT, graphs.shape(2, 2)), Node("w", NodeKind.INPUT, graphs.shape(2, 2)))
    into = (Edge("p", "x", 0), Edge("w", "x", 1))
    graph = BudaGraph("stacked", (*sources, picker, *graph.nodes[1:]), (*into, *graph.edges))
    assert not consumes_z_major(graph, graph.operands("op")[0])


Z_SUM = OpSpec("reduce", reduce_dim="z")
ONE_TILE = SparsePattern.of([(0, 0)], 2 * 32, 2 * 32)


@pytest.mark.parametrize(
    ("spec", "z", "factors", "dirs"),
    [
        (Z_SUM, 4, [1], ("R",)),  # all z of a piece are summed at once
        (Z_SUM, 1, [1, 2, 4], ("R",)),
        (OpSpec("reduce", reduce_dim="c"), 4, [1, 2, 4], ("R", "C", "RZ")),
        (OpSpec("exp", reduce_dim="z"), 1, [1, 2, 4], ("R", "C")),
        (OpSpec("exp"), 2, [1, 2, 4], ("R", "C", "RZ")),
        (OpSpec("nop", padding_nop=True), 1, [1], ("R", "C")),
        (OpSpec("tilizer"), 1, [1], ("R", "C")),
        (OpSpec("embedding"), 1, [1], ("R", "C")),
    ],
)
def test_which_ops_are_cut_in_time(spec: OpSpec, z: int, factors: list[int], dirs: tuple[str, ...]) -> None:
    after = graphs.shape(8, 1 if spec.reduce_dim == "c" else 6, z if spec != Z_SUM else 1)
    nodes = (Node("x", NodeKind.INPUT, graphs.shape(8, 6, z)), Node("op", NodeKind.OP, after, op=spec))
    graph = BudaGraph("op", nodes, (Edge("x", "op"),))
    got = stream_factors(graph, nodes[1], Grid(2, 1), "R", PLAIN)
    assert [(stream.dir, stream.r, stream.c) for stream in got] == [("R", r, 1) for r in factors]
    assert stream_dirs(graph, nodes[1], PLAIN) == dirs


def test_columns_are_cut_as_far_as_cores_share_them() -> None:
    graph = graphs.unary(8, 12)
    got = stream_factors(graph, graph.node("op"), Grid(2, 3), "C", PLAIN)
    assert [(stream.dir, stream.r, stream.c) for stream in got] == [("C", 1, c) for c in (1, 2, 4)]


def test_a_sparse_product_with_z_inside_has_the_same_rows_of_every_tap_in_each_piece() -> None:
    """Two taps of eight rows: at most eight pieces on one row of cores, four on two; by rows twice as many."""
    picker = SparsePattern.of_convolution((16, 16), (2, 1), (1, 1), ((0, 1), (0, 0)))
    graph = graphs.convolution(picker, 4, 4)
    node = graph.node("gather")
    assert stream_dirs(graph, node, PLAIN) == ("R", "C", "RZ")

    def pieces(rows: int, direction: str) -> list[int]:
        return [stream.r for stream in stream_factors(graph, node, Grid(rows, 1), direction, PLAIN)]

    assert [pieces(1, "RZ"), pieces(2, "RZ"), pieces(8, "RZ")] == [[1, 2, 4, 8], [1, 2, 4], [1]]
    assert [pieces(1, "R"), pieces(2, "R"), pieces(16, "R")] == [[1, 2, 4, 8, 16], [1, 2, 4, 8], [1]]
    assert pieces(16, "RZ") == [1], "an op that is not cut is looked at later"


@pytest.mark.parametrize("kind", ["embedding", "tilizer"])
def test_ops_whose_micro_block_is_one_tile_high(kind: str) -> None:
    for columns, free in ((6, UBlock(4, 2)), (3, UBlock(2, 3))):
        assert micro_block(graphs.unary(8, 6, kind).node("op"), 4, columns, 8) == UBlock(1, columns)
        assert micro_block(graphs.unary(8, 6).node("op"), 4, columns, 8) == free
