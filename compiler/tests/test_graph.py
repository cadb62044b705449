"""The Buda graph: TMs, orders of micro blocks, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.errors import CompilerInputError

IN, OP, OUT = NodeKind.INPUT, NodeKind.OP, NodeKind.OUTPUT


def shape(rt: int, ct: int, z: int = 1) -> TensorShape:
    return TensorShape(1, z, rt, ct)


def test_shapes_are_padded_to_tiles() -> None:
    assert TensorShape.of((12544, 147)) == shape(392, 5)
    assert TensorShape.of((1, 12, 128, 64)) == shape(4, 2, 12)
    assert TensorShape.of(()) == shape(1, 1)
    assert TensorShape.of((2, 3, 33, 1)).tiles == 12


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("hslice(3)", shape(4, 12), shape(4, 4, 3)),
        ("vslice(4)", shape(4, 12), shape(1, 12, 4)),
        ("hstack(3)", shape(4, 4, 6), shape(4, 12, 2)),
        ("vstack(6)", shape(4, 4, 6), shape(24, 4)),
        ("transpose", shape(4, 12, 2), shape(12, 4, 2)),
        ("broadcast(z, 5)", shape(4, 4), shape(4, 4, 5)),
        ("broadcast(r, 5)", shape(1, 4), shape(5, 4)),
        ("tile_broadcast(c)", shape(4, 4), shape(4, 4)),
        ("buda_pad(2, 1)", shape(4, 4), shape(6, 5)),
        ("buda_unpad(2, 1)", shape(4, 4), shape(2, 3)),
    ],
)
def test_tms(text: str, before: TensorShape, after: TensorShape) -> None:
    tm = Tm.parse(text)
    assert str(tm) == text
    assert tm.apply(before) == after


@pytest.mark.parametrize(
    ("text", "on", "expected"),
    [
        ("hslice(5)", shape(4, 12), r"hslice\(5\): expected ct divisible by 5, got 1x4x12 tiles"),
        ("vstack(4)", shape(4, 4, 6), r"vstack\(4\): expected z divisible by 4"),
        ("buda_unpad(4, 0)", shape(4, 4), "expected to leave at least one tile"),
    ],
)
def test_tms_that_do_not_fit(text: str, on: TensorShape, expected: str) -> None:
    with pytest.raises(CompilerInputError, match=expected):
        Tm.parse(text).apply(on)


@pytest.mark.parametrize("text", ["", "hslice", "hslice(x)", "broadcast(w, 2)", "transpose(1)", "pad(1, 2)"])
def test_what_is_no_tm(text: str) -> None:
    with pytest.raises(CompilerInputError, match="TM: expected hslice"):
        Tm.parse(text)


def pair(tms: tuple[Tm, ...] = (), consumer: str = "matmul", operand: int = 0) -> BudaGraph:
    """exp, then a product with something else."""
    nodes = (
        Node("x", IN, shape(4, 4)),
        Node("other", IN, shape(4, 4)),
        Node("exp", OP, shape(4, 4), op=OpSpec("exp")),
        Node("end", OP, shape(4, 4), op=OpSpec(consumer)),
        Node("y", OUT, shape(4, 4)),
    )
    edges = (Edge("x", "exp"), Edge("exp", "end", operand, tms), Edge("other", "end", 1 - operand), Edge("end", "y"))
    return BudaGraph("pair", nodes, edges)


@pytest.mark.parametrize(
    ("graph", "order"),
    [
        (pair(), "c"),
        (pair(operand=1), "r"),
        (pair((Tm("transpose"),)), "r"),
        (pair((Tm("transpose"), Tm("transpose"))), "c"),
        (pair(consumer="add"), "r"),
    ],
)
def test_ublock_order_is_what_the_user_reads(graph: BudaGraph, order: str) -> None:
    assert graph.ublock_orders["exp"] == order


def test_ublock_order_passes_through_elementwise_ops() -> None:
    graph = pair()
    more = (Node("z", IN, shape(4, 4)), Node("first", OP, shape(4, 4), op=OpSpec("log")))
    longer = BudaGraph(
        "longer",
        (*more, *graph.nodes),
        (Edge("z", "first"), *(e for e in graph.edges if e.consumer != "exp"), Edge("first", "exp")),
    )
    assert longer.ublock_orders["first"] == "c"


X, EXP = Node("x", IN, shape(4, 4)), Node("e", OP, shape(4, 4), op=OpSpec("exp"))
W, BOTH = Node("w", IN, shape(4, 6)), (Edge("x", "m", 0), Edge("w", "m", 1))


def op(kind: str, *result: int, **fields: Any) -> Node:
    return Node("m", OP, shape(*result), op=OpSpec(kind, **fields))


@pytest.mark.parametrize(
    ("nodes", "edges", "expected"),
    [
        ((X, X), (), "expected unique names, got x twice"),
        ((X, EXP), (Edge("z", "e"),), "expected a node of the graph, got 'z'"),
        ((EXP, X), (Edge("x", "e"),), "expected x before e, got it after"),
        ((X, EXP), (), "e: expected operands 0, 1, ... once each, got none"),
        ((X, EXP), (Edge("x", "e", 1),), "got 1"),
        ((X, W, op("matmul", 3, 5)), BOTH, "m: expected an output of 4x6 tiles, got 1x3x5"),
        ((X, W, op("matmul", 4, 5)), BOTH, "m: expected an output of 4x6 tiles, got 1x4x5"),
        (
            (W, X, op("matmul", 4, 6)),
            (Edge("w", "m", 0), Edge("x", "m", 1)),
            "m: expected operands RxK and KxC, got 1x4x6",
        ),
        ((X, op("matmul", 4, 4)), (Edge("x", "m", 0),), "m: expected operands RxK and KxC, got 1x4x4"),
        ((X, W, op("sparse_matmul", 4, 6)), BOTH, "m: expected a pattern for a sparse_matmul and for it alone"),
        ((X, op("reduce", 1, 4, reduce_dim="x")), (Edge("x", "m", 0),), "m: expected reduce_dim r, c or z, got 'x'"),
        (
            (X, op("exp", 4, 4, math_fidelity="HiFi1")),
            (Edge("x", "m", 0),),
            "m: expected math fidelity LoFi, .* 'HiFi1'",
        ),
        ((X, EXP), (Edge("x", "e", 0, (Tm("broadcast", 2, "r"),)),), "e: expected operand 0 of 1x4x4 tiles"),
    ],
)
def test_what_is_no_graph(nodes: tuple[Node, ...], edges: tuple[Edge, ...], expected: str) -> None:
    with pytest.raises(CompilerInputError, match=expected):
        BudaGraph("bad", nodes, edges)


def test_the_planner_knows_no_ir() -> None:
    code = (
        "import sys; from opscope.compiler.buda import plan_report, planner;"
        "print({'xdsl', 'jaxlib', 'jax'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
