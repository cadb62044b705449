"""The rules of a streamed edge one by one: which factors and directions fit, and the shape of a piece."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opscope.compiler.buda.balancer.constraints import (
    EdgeFailureReason,
    End,
    _blocks_fit,
    _compatible,
    _directions_fit,
    _turns_z_to_rows,
    edge_failure,
    piece_shape,
)
from opscope.compiler.buda.balancer.shapes import BlockShape, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, OpSpec

WHOLE = StreamFactor()


def cut(text: str) -> StreamFactor:
    """`R2`, `C3`, `RZ2`; `C` is not cut."""
    direction, number = text.rstrip("0123456789"), int(text.lstrip("RCZ") or 1)
    return StreamFactor(direction, number, 1) if direction.startswith("R") else StreamFactor(direction, 1, number)


@pytest.mark.parametrize(
    ("produced", "taken", "into_sparse", "z_to_rows", "fits"),
    [
        ("R", "R3", False, False, True),
        ("R", "R3", False, True, False),
        ("R", "R", False, True, True),
        ("R2", "R", False, False, True),
        ("R2", "R", False, True, True),
        ("C2", "R", False, False, True),
        ("RZ2", "R", False, False, False),
        ("RZ2", "R", True, False, True),
        ("RZ2", "C", True, False, False),
        ("CZ2", "C", False, False, False),
        ("CZ2", "C", True, False, False),
        ("R2", "R2", False, False, True),
        ("R2", "R4", False, False, False),
        ("R2", "R4", True, False, True),
        ("C2", "C2", False, False, True),
        ("C2", "C4", True, False, False),
        ("R2", "C2", False, False, False),
        ("RZ2", "R2", False, False, True),
        ("CZ2", "C2", False, False, True),
    ],
)
def test_which_factors_fit(produced: str, taken: str, into_sparse: bool, z_to_rows: bool, fits: bool) -> None:
    assert _compatible(cut(produced), cut(taken), into_sparse, z_to_rows) is fits


@pytest.mark.parametrize(
    ("produced", "taken", "has_z", "z_to_rows", "fits"),
    [
        ("RZ2", "R2", False, True, True),
        ("RZ2", "RZ2", False, True, False),
        ("R2", "R2", False, True, False),
        ("RZ2", "C2", False, True, False),
        ("C2", "C2", True, False, True),
        ("RZ2", "RZ2", True, False, True),
        ("RZ2", "R2", True, False, False),
        ("CZ2", "C2", True, False, False),
        ("RZ2", "R2", False, False, True),
        ("CZ2", "C2", False, False, True),
        ("R2", "RZ2", True, False, True),
        ("R2", "C2", False, False, False),
        ("R", "C2", False, False, True),
        ("R2", "C", False, False, True),
    ],
)
def test_which_directions_fit(produced: str, taken: str, has_z: bool, z_to_rows: bool, fits: bool) -> None:
    assert _directions_fit(cut(produced), cut(taken), has_z, z_to_rows) is fits


BOTH = {"R": StreamFactor("R", 2, 3), "C": StreamFactor("C", 2, 3)}
"""Cut into 2 x 3 pieces, rows or columns first: no op is cut so today."""


@pytest.mark.parametrize(
    ("stream", "order", "ublock", "blocks", "grid", "fits", "dense"),
    [
        # A piece is a whole number of micro blocks each way.
        (cut("R2"), "r", (3, 1), (1, 6), (1, 1), False, False),
        (cut("R2"), "r", (1, 4), (4, 6), (1, 1), False, False),
        (cut("C3"), "c", (3, 1), (8, 2), (1, 1), False, False),
        # In the order in which it is read: any, or one line of micro blocks if it is cut both ways. For a dense
        # product one line, or all of the lines that its cores hold.
        (cut("R2"), "r", (2, 3), (1, 1), (1, 1), True, False),
        (cut("R2"), "r", (2, 3), (1, 2), (1, 1), True, True),
        (cut("R2"), "r", (2, 3), (2, 1), (1, 2), True, True),
        (cut("R2"), "r", (2, 3), (2, 1), (2, 1), True, False),
        (cut("R2"), "r", (4, 3), (1, 1), (1, 1), True, True),
        (cut("C3"), "c", (2, 1), (1, 1), (1, 1), True, False),
        (cut("C3"), "c", (2, 1), (4, 1), (1, 1), True, True),
        (cut("C3"), "c", (2, 1), (2, 1), (2, 1), True, True),
        (cut("C3"), "c", (2, 2), (1, 1), (1, 1), True, True),
        (BOTH["R"], "r", (2, 2), (1, 1), (1, 1), False, True),
        (BOTH["R"], "r", (2, 2), (2, 1), (2, 2), False, False),
        (BOTH["R"], "r", (4, 1), (1, 1), (1, 1), True, True),
        (BOTH["C"], "c", (2, 1), (1, 1), (1, 1), False, False),
        (BOTH["C"], "c", (2, 2), (1, 1), (1, 1), True, True),
        # Against that order it is as for a dense product.
        (cut("R2"), "c", (1, 6), (1, 1), (1, 1), True, True),
        (cut("R2"), "c", (2, 3), (2, 1), (1, 1), True, True),
        (cut("R2"), "c", (2, 3), (1, 1), (2, 1), True, True),
        (cut("R2"), "c", (2, 3), (1, 2), (1, 2), False, False),
        (cut("C3"), "r", (8, 1), (1, 1), (1, 1), True, True),
        (cut("C3"), "r", (4, 1), (1, 2), (1, 1), True, True),
        (cut("C3"), "r", (4, 1), (1, 1), (1, 2), True, True),
        (cut("C3"), "r", (4, 1), (2, 1), (2, 1), False, False),
    ],
)
def test_how_a_piece_fits_into_the_blocks_that_read_it(
    stream: StreamFactor,
    order: str,
    ublock: tuple[int, int],
    blocks: tuple[int, int],
    grid: tuple[int, int],
    fits: bool,
    dense: bool,
) -> None:
    """Pieces of 8 x 6 tiles, read in blocks of micro blocks on a grid; `dense` is what a dense product can read."""
    graph = graphs.then_unary(8, 6, "")
    edge, taken = graph.edges[1], End(WHOLE, Grid(*grid), BlockShape(1, *blocks, UBlock(*ublock)))
    piece = piece_shape(graph, edge, stream)
    got = [_blocks_fit(piece, stream, taken, order, product) for product in (False, True)]
    assert got == [fits, dense]


@pytest.mark.parametrize(
    ("stream", "between", "piece"),
    [
        (WHOLE, "", (1, 8, 6)),
        (cut("R2"), "", (2, 4, 6)),
        (cut("C3"), "", (3, 8, 2)),
        (cut("R3"), "", (8, 1, 6)),  # no third of eight rows: single ones
        (cut("C4"), "", (6, 8, 1)),
        (cut("R2"), "transpose", (2, 6, 4)),
        (cut("R2"), "hslice(3)", (6, 4, 2)),
        (cut("R2"), "vslice(8)", (8, 1, 6)),
        (WHOLE, "hslice(6);vstack(3)", (2, 24, 1)),
        (WHOLE, "hslice(6);vstack(3);hstack(2)", (1, 24, 2)),
        (cut("R2"), "hslice(3);hstack(3)", (2, 4, 6)),
        (WHOLE, "vslice(4);hslice(3);hstack(6)", (2, 2, 12)),
        (WHOLE, "vslice(4);hstack(2);hstack(2);vslice(2)", (2, 1, 24)),
        (cut("C3"), "buda_unpad(3, 1)", (3, 5, 1)),
        (cut("C3"), "buda_unpad(7, 5)", (3, 1, 1)),  # at least one tile
        (WHOLE, "buda_pad(3, 1)", (1, 11, 7)),
    ],
)
def test_the_piece_that_a_consumer_sees(stream: StreamFactor, between: str, piece: tuple[int, int, int]) -> None:
    graph = graphs.then_unary(8, 6, between)
    (edge,) = (edge for edge in graph.edges if edge.producer == "first")
    got = piece_shape(graph, edge, stream)
    assert (got.z, got.rt, got.ct) == piece


def test_only_slices_are_stacked() -> None:
    for stack in ("vstack(4)", "vstack(2)", "hstack(2)"):
        graph = graphs.stacked_unary(4, 2, stack)
        got = piece_shape(graph, graph.edges[0], WHOLE)
        assert (got.z, got.rt, got.ct) == (4, 2, 2)


@pytest.mark.parametrize(
    ("z", "made", "taken", "wrong"),
    [
        (1, "RZ2", "R2", None),
        (2, "RZ2", "R2", EdgeFailureReason.TStreamIllegalTStreamDir),
        (2, "RZ2", "RZ2", None),
        (1, "C2", "C2", None),
        (1, "C2", "R", EdgeFailureReason.TStreamAntiUblockOrderStacking),
    ],
)
def test_pieces_of_an_elementwise_op(z: int, made: str, taken: str, wrong: EdgeFailureReason | None) -> None:
    """Of 8 x 8 tiles, read whole; z inside each piece matters where there is more than one."""
    graph = graphs.z_pair(z)
    consumer = End(cut(taken), Grid(1, 1), BlockShape(2, 1, 1, UBlock(4, 8) if made != "C2" else UBlock(8, 4)))
    assert edge_failure(graph, graph.edges[1], cut(made), consumer) is wrong


def test_which_ops_turn_z_into_rows() -> None:
    """A sum over z, and both operands of the product of a convolution."""
    chain = graphs.chain(2)
    for spec, turns in (
        (OpSpec("reduce", reduce_dim="z"), True),
        (OpSpec("reduce", reduce_dim="c"), False),
        (OpSpec("exp", reduce_dim="z"), False),
        (OpSpec("exp"), False),
    ):
        nodes = tuple(replace(node, op=spec) if node.name == "e1" else node for node in chain.nodes)
        assert _turns_z_to_rows(BudaGraph("sum", nodes, chain.edges), chain.edges[1]) is turns
    convolution = graphs.seed_convolution()
    assert [_turns_z_to_rows(convolution, edge) for edge in convolution.operands("mm")] == [True, True]
    assert not _turns_z_to_rows(convolution, convolution.operands("gather")[1])


def product_of_ops() -> BudaGraph:
    """(8x4) x (4x6) + (8x6), all of them results of ops."""
    shapes = [graphs.shape(8, 4), graphs.shape(4, 6), graphs.shape(8, 6)]
    sources = [Node(name, graphs.INPUT, extent) for name, extent in zip("xwb", shapes, strict=True)]
    made = [Node(f"{name}1", graphs.OP, extent, op=OpSpec("exp")) for name, extent in zip("xwb", shapes, strict=True)]
    last = Node("m", graphs.OP, graphs.shape(8, 6), op=OpSpec("matmul"))
    edges = [Edge(name, f"{name}1") for name in "xwb"] + [Edge(f"{name}1", "m", i) for i, name in enumerate("xwb")]
    out = Node("y", graphs.OUTPUT, graphs.shape(8, 6))
    return BudaGraph("product", (*sources, *made, last, out), (*edges, Edge("m", "y")))


@pytest.mark.parametrize(
    ("operand", "stream", "piece", "grid", "wrong"),
    [
        (0, "C2", (8, 2), (1, 3), None),
        (1, "R2", (2, 6), (3, 1), None),
        (2, "R2", (4, 6), (3, 1), EdgeFailureReason.TStreamNotDivisableRow),
        (2, "R2", (4, 6), (4, 1), None),
    ],
)
def test_what_a_product_sums_over_need_not_divide_into_its_cores(
    operand: int, stream: str, piece: tuple[int, int], grid: tuple[int, int], wrong: EdgeFailureReason | None
) -> None:
    graph = product_of_ops()
    (edge,) = (edge for edge in graph.edges if (edge.consumer, edge.operand) == ("m", operand))
    consumer = End(WHOLE, Grid(*grid), BlockShape(1, 1, 1, UBlock(*piece)))
    assert edge_failure(graph, edge, cut(stream), consumer) is wrong


@pytest.mark.parametrize(
    ("operand", "stream", "piece", "wrong"),
    [
        (0, "R2", (4, 4), None),
        (0, "C2", (8, 2), EdgeFailureReason.TStreamMatmulStreamingSide),
        (1, "R2", (2, 6), EdgeFailureReason.TStreamMatmulStreamingSide),
        (1, "C2", (4, 3), None),
        (2, "R2", (4, 6), None),
        (2, "C2", (8, 3), None),
    ],
)
def test_a_product_streams_its_left_operand_by_rows_its_right_one_by_columns_and_a_bias_either_way(
    operand: int, stream: str, piece: tuple[int, int], wrong: EdgeFailureReason | None
) -> None:
    graph = product_of_ops()
    (edge,) = (edge for edge in graph.edges if (edge.consumer, edge.operand) == ("m", operand))
    consumer = End(cut(stream), Grid(1, 1), BlockShape(2, 1, 1, UBlock(*piece)))
    assert edge_failure(graph, edge, cut(stream), consumer) is wrong
