"""What TMs around an op let it be cut in time, and how many macro blocks it holds for its users, rule by rule."""

from __future__ import annotations

import pytest

from opscope.compiler.buda.balancer.access import access
from opscope.compiler.buda.balancer.shapes import Grid, StreamFactor
from opscope.compiler.buda.balancer.tests.graphs import INPUT, shape, stacked_right_operand
from opscope.compiler.buda.balancer.tests.test_constraints import cut
from opscope.compiler.buda.graph import BudaGraph, Edge, NodeKind, OpSpec
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand

SQUARE = (8, 12, 4)
"""Rows, columns and z."""
CORE = Grid(1, 1)


def pair(
    between: str, size: tuple[int, int, int] = SQUARE, user: OpSpec | None = None, last: bool = False
) -> BudaGraph:
    """An op, a user that reads it after TMs and, unless the user is `last`, another op."""
    builder = GraphBuilder("pair")
    builder.op("made", OpSpec("exp"), [builder.source("x", INPUT, shape(*size))])
    result = builder.op("read", user or OpSpec("exp"), [Operand.parse(f"made | {between}" if between else "made")])
    builder.output("y", result if last else builder.op("end", OpSpec("exp"), [result]))
    return builder.graph()


def for_users(graph: BudaGraph, stream: StreamFactor, order: str) -> tuple[bool, int]:
    around = access(graph, graph.node("made"), CORE, stream, order)
    return around.users_stream, around.buffer_factor


@pytest.mark.parametrize(
    ("between", "size", "stream", "order", "streams", "blocks"),
    [
        ("", SQUARE, "R2", "c", True, 1),
        # A slice of columns waits for a whole row of blocks, unless columns come one after the other or are all there.
        ("hslice(3)", SQUARE, "C3", "c", True, 1),
        ("hslice(3)", SQUARE, "C3", "r", False, 1),
        ("hslice(3)", SQUARE, "R2", "c", False, 1),
        ("hslice(3)", (1, 12, 4), "C3", "r", True, 1),
        ("hslice(3)", (2, 12, 4), "C3", "r", False, 1),
        ("hslice(3)", SQUARE, "C6", "c", True, 1),
        ("hslice(3)", SQUARE, "C4", "c", False, 1),
        ("vslice(2)", SQUARE, "R2", "r", True, 1),
        ("vslice(2)", SQUARE, "R2", "c", False, 1),
        ("vslice(2)", SQUARE, "C2", "r", False, 1),
        ("vslice(2)", (8, 1, 4), "R2", "c", True, 1),
        ("vslice(2)", (8, 2, 4), "R2", "c", False, 1),
        # What is stacked while it waits is held once for each part.
        ("hstack(4)", SQUARE, "R", "r", False, 4),
        ("hstack(4)", SQUARE, "C2", "c", True, 1),
        ("vstack(4)", SQUARE, "C2", "r", False, 4),
        ("vstack(4)", SQUARE, "R2", "r", True, 1),
        ("vstack(4)", SQUARE, "R3", "r", False, 1),
        # With z inside each piece only what slices and stacks leave over matters.
        ("hslice(4);hstack(4)", SQUARE, "RZ2", "r", True, 1),
        ("hslice(2);hstack(4)", SQUARE, "RZ2", "r", False, 2),
        ("hslice(4);hstack(2)", SQUARE, "RZ2", "r", False, 1),
        # A transpose needs another order of blocks, or a single line of tiles.
        ("transpose", SQUARE, "R2", "r", False, 1),
        ("transpose", SQUARE, "R2", "c", True, 1),
        ("transpose", (1, 12, 4), "C2", "r", True, 1),
        ("transpose", (8, 1, 4), "R2", "r", True, 1),
        ("broadcast(z, 2)", SQUARE, "R2", "r", False, 1),
        ("buda_unpad(2, 0)", SQUARE, "R2", "r", True, 1),
        ("buda_unpad(2, 0)", SQUARE, "C2", "r", False, 1),
        ("buda_unpad(0, 1)", SQUARE, "C2", "r", True, 1),
        ("buda_unpad(0, 1)", SQUARE, "R2", "r", False, 1),
        # The second TM sees the shape after the first: one row.
        ("vslice(8);hslice(3)", (8, 12, 1), "R8", "r", False, 1),
        ("transpose;hslice(2)", (12, 1, 1), "R2", "c", True, 1),
    ],
)
def test_what_users_allow(
    between: str, size: tuple[int, int, int], stream: str, order: str, streams: bool, blocks: int
) -> None:
    graph = pair(between.replace(";", " | "), size)
    assert for_users(graph, cut(stream), order) == (streams, blocks)


def test_a_transpose_on_the_way_to_an_output_keeps_the_order() -> None:
    assert for_users(pair("transpose", last=True), cut("R2"), "r") == (True, 1)
    shared = pair("transpose")
    shared = BudaGraph("shared", shared.nodes, (*shared.edges, Edge("read", "y", 1)))
    assert for_users(shared, cut("R2"), "r") == (False, 1)
    builder = GraphBuilder("direct")
    builder.op("made", OpSpec("exp"), [builder.source("x", INPUT, shape(*SQUARE))])
    builder.output("y", Operand.parse("made | transpose"))
    assert for_users(builder.graph(), cut("R2"), "r") == (True, 1)


def test_the_host_cannot_undo_z_inside_pieces() -> None:
    builder = GraphBuilder("last")
    builder.output("y", builder.op("made", OpSpec("exp"), [builder.source("x", INPUT, shape(*SQUARE))]))
    assert for_users(builder.graph(), cut("RZ2"), "r") == (False, 1)
    assert for_users(builder.graph(), cut("R2"), "r") == (True, 1)


def test_what_waits_in_dram_may_be_cut_in_any_way() -> None:
    assert for_users(pair("hstack(4)", user=OpSpec("exp", epoch_type="backward")), cut("R2"), "r") == (True, 1)


def test_a_user_that_only_pads_takes_it_whole() -> None:
    assert for_users(pair("", user=OpSpec("nop", padding_nop=True)), cut("R2"), "r") == (False, 1)


def test_what_is_written_back_keeps_its_shape() -> None:
    graph = pair("", last=True)
    back = BudaGraph("back", graph.nodes, (*graph.edges, Edge("made", "x")))
    assert back.node("x").kind is NodeKind.INPUT
    assert for_users(back, cut("R2"), "r") == (False, 1)


def test_one_user_after_another_the_strictest_counts() -> None:
    builder = GraphBuilder("two")
    builder.op("made", OpSpec("exp"), [builder.source("x", INPUT, shape(*SQUARE))])
    for name, text in (("first", "made"), ("second", "made | hstack(4)"), ("third", "made | hslice(2)")):
        builder.output(f"{name}.out", builder.op(name, OpSpec("exp"), [Operand.parse(text)]))
    assert for_users(builder.graph(), cut("R"), "r") == (False, 4)


def reader(into: str) -> BudaGraph:
    """An op that reads an input after TMs."""
    builder = GraphBuilder("reader")
    builder.source("x", INPUT, shape(12, 12, 12))
    builder.output("y", builder.op("op", OpSpec("exp"), [Operand.parse(f"x | {into}")]))
    return builder.graph()


@pytest.mark.parametrize(
    ("into", "stream", "grid", "streams", "fits"),
    [
        ("vstack(2)", "R2", (1, 1), True, True),
        ("vstack(2)", "R3", (1, 1), False, True),
        ("vstack(2)", "RZ3", (1, 1), True, True),
        ("hstack(2)", "C3", (1, 1), False, True),
        ("hstack(2)", "R3", (1, 1), True, True),
        # The stack fits the cores that its pieces go over: rows for rows, else columns.
        ("vstack(2)", "R", (3, 2), True, False),
        ("vstack(2)", "C", (3, 2), True, True),
        ("vstack(2)", "RZ2", (3, 2), True, True),
        ("vstack(2)", "RZ2", (2, 3), True, False),
        # What is sliced first has as many parts less.
        ("hslice(2) | vstack(2)", "R3", (3, 3), True, True),
        ("vslice(2) | vstack(4)", "R3", (1, 1), False, True),
        ("vslice(2) | vstack(4)", "R2", (1, 1), True, True),
        ("hslice(2) | hstack(6)", "C2", (1, 1), False, True),
        ("hslice(2) | hstack(6)", "C3", (1, 1), True, True),
        ("vstack(2) | hstack(2)", "R", (3, 3), True, False),
    ],
)
def test_what_operands_allow(into: str, stream: str, grid: tuple[int, int], streams: bool, fits: bool) -> None:
    graph = reader(into)
    around = access(graph, graph.node("op"), Grid(*grid), cut(stream), "r")
    assert (around.operands_stream, around.stack_fits_grid) == (streams, fits)


@pytest.mark.parametrize(
    ("operand", "stream", "fits"), [(0, "R2", True), (0, "C2", False), (1, "R2", False), (1, "C2", True)]
)
def test_a_product_takes_stacked_rows_left_and_stacked_columns_right(operand: int, stream: str, fits: bool) -> None:
    graph = stacked_right_operand()
    if operand == 0:
        builder = GraphBuilder("left")
        builder.source("x", INPUT, shape(2, 4, 4))
        builder.source("w", INPUT, shape(4, 8))
        builder.output("y", builder.op("mm", OpSpec("matmul"), [Operand.parse("x | vstack(4)"), Operand("w")]))
        graph = builder.graph()
    assert access(graph, graph.node("mm"), CORE, cut(stream), "r").operands_stream is fits
