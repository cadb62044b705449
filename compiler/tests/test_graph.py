"""The Buda graph: TMs, orders of micro blocks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.buda.balancer.tests.graphs import arrows, one_tap_convolution
from opscope.compiler.buda.fused import Fused
from opscope.compiler.buda.graph import FIDELITIES, BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError

IN, OP, OUT = NodeKind.INPUT, NodeKind.OP, NodeKind.OUTPUT


def shape(rt: int, ct: int, z: int = 1) -> TensorShape:
    return TensorShape(1, z, rt, ct)


def test_shapes_are_padded_to_tiles() -> None:
    assert TensorShape.of((12544, 147)) == shape(392, 5)
    assert TensorShape.of((1, 12, 128, 64)) == shape(4, 2, 12)
    assert TensorShape.of(()) == shape(1, 1)
    assert TensorShape.of((2, 3, 33, 1)).tiles == 12


def test_shapes_have_up_to_four_dims_and_tell_their_tiles() -> None:
    assert TensorShape.of((2, 3, 33, 65)) == TensorShape(2, 3, 2, 3)
    assert TensorShape.of((5,)) == TensorShape(1, 1, 1, 1)
    with pytest.raises(CompilerInputError, match=r"^shape \(1, 1, 1, 1, 1\): expected at most 4 dimensions, got 5$"):
        TensorShape.of((1,) * 5)
    shapes = TensorShape(1, 4, 2, 3), TensorShape(2, 1, 2, 3)
    assert [str(shape) for shape in shapes] == ["4x2x3 tiles", "2x1x2x3 tiles"]
    assert [shape.tiles for shape in shapes] == [24, 12]


def test_phases_of_each_fidelity() -> None:
    assert FIDELITIES == {"LoFi": 1, "HiFi2": 2, "HiFi2_B": 2, "HiFi3": 3, "HiFi4": 4}


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
        ("buda_unpad(3, 3)", shape(4, 4), shape(1, 1)),
        ("broadcast(c, 5)", shape(2, 3), shape(2, 15)),
        ("tile_broadcast(r)", shape(2, 3), shape(2, 3)),
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
        ("buda_unpad(0, 4)", shape(4, 4), "expected to leave at least one tile, got 1x4x4 tiles"),
    ],
)
def test_tms_that_do_not_fit(text: str, on: TensorShape, expected: str) -> None:
    with pytest.raises(CompilerInputError, match=expected):
        Tm.parse(text).apply(on)


def test_a_tm_applies_once_over_no_tiles_by_default() -> None:
    assert Tm.parse("transpose") == Tm("transpose") == Tm("transpose", 1, "", 0, 0)
    assert Tm.parse("tile_broadcast(c)") == Tm("tile_broadcast", 1, "c")
    assert Tm.parse(" broadcast( c ,3) ") == Tm("broadcast", 3, "c")
    kinds = {name: (Tm(name).is_slice, Tm(name).is_stack) for name in ("hslice", "vslice", "hstack", "vstack", "other")}
    assert kinds == {
        "hslice": (True, False),
        "vslice": (True, False),
        "hstack": (False, True),
        "vstack": (False, True),
        "other": (False, False),
    }


@pytest.mark.parametrize("text", ["", "hslice", "hslice(x)", "broadcast(w, 2)", "transpose(1)", "pad(1, 2)"])
def test_an_unknown_tm_is_refused(text: str) -> None:
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


def test_the_first_op_that_reads_decides_the_order_and_outputs_do_not() -> None:
    nodes = (
        Node("x", IN, shape(4, 4)),
        Node("e", OP, shape(4, 4), op=OpSpec("exp")),
        Node("m", OP, shape(4, 4), op=OpSpec("matmul")),
        Node("a", OP, shape(4, 4), op=OpSpec("abs")),
        Node("y", OUT, shape(4, 4)),
        Node("z", OUT, shape(4, 4)),
        Node("o", OUT, shape(4, 4)),
    )
    edges = arrows("x>e e>y e>m x>m e>a m>z a>o")
    graph = BudaGraph("forked", nodes, edges)
    assert graph.ublock_orders == {"x": "c", "e": "c", "m": "r", "a": "r", "y": "r", "z": "r", "o": "r"}
    assert [graph.read_order(edge) for edge in graph.edges] == ["c", "r", "c", "r", "r", "r", "r"]
    assert [edge.consumer for edge in graph.users("e")] == ["y", "m", "a"]  # in the graph's order
    turned = BudaGraph("forked", nodes, (edges[0], edges[3], *edges[1:3], *edges[4:]))
    assert [edge.operand for edge in turned.operands("m")] == [0, 1]
    assert [op.name for op in graph.ops] == ["e", "m", "a"]


def test_a_node_without_a_field_is_refused_by_name() -> None:
    graph = one_tap_convolution()
    gather, source = graph.node("gather"), graph.node("x")
    assert gather.spec.pattern is gather.spec.sparse
    with pytest.raises(CompilerInputError, match=r"^matmul: expected a sparse matmul, got an op without a pattern$"):
        _ = graph.node("mm").spec.pattern
    with pytest.raises(CompilerInputError, match=r"^x: expected an op, got a node of kind input$"):
        _ = source.spec
    kinds = [kind for kind in NodeKind if kind.is_resident]
    assert kinds == [NodeKind.PARAMETER, NodeKind.CONSTANT]
    matmuls = [kind for kind in ("matmul", "sparse_matmul", "depthwise", "add") if OpSpec(kind).is_matmul]
    assert matmuls == ["matmul", "sparse_matmul", "depthwise"]
    deep = Node("d", IN, TensorShape(2, 3, 4, 5))
    assert (deep.extent, Node("d", IN, deep.shape, elements=(6, 100, 150)).extent) == ((6, 128, 160), (6, 100, 150))
    edge = Edge("a", "b", tms=(Tm("transpose"),))
    assert (edge.operand, edge.has_tm("transpose"), edge.has_tm("hslice"), Edge("a", "b").has_tm("transpose")) == (
        0,
        True,
        False,
        False,
    )


def test_an_unknown_node_is_refused_with_the_three_nearest_or_first() -> None:
    graph = BudaGraph("some", tuple(Node(f"node{i}", IN, shape(1, 1)) for i in range(5)))
    for name in ("node9", "zzz"):
        with pytest.raises(CompilerInputError) as caught:
            graph.node(name)
        head, _, near = str(caught.value).partition("; try ")
        assert (head, len(near.split(", "))) == (f"op: expected a node of some, got {name!r}", 3)
    assert near == "node0, node1, node2"


def test_a_tensor_has_at_most_68_billion_tiles() -> None:
    most = TensorShape(1, 1, 1 << 18, 1 << 18)
    assert BudaGraph("large", (Node("x", IN, most),)).node("x").shape.tiles == 68719476736
    with pytest.raises(CompilerInputError, match=r"^x: expected at most 68719476736 tiles, got 1x262144x262145 tiles$"):
        BudaGraph("large", (Node("x", IN, TensorShape(1, 1, 1 << 18, (1 << 18) + 1)),))


def test_ops_of_any_shape_state_their_operands() -> None:
    """An input of a queue between passes may come from a later node; splices and depthwise ops choose their shapes."""
    for kind in ("splice", "depthwise"):
        nodes = (Node("x", IN, shape(4, 4)), Node("m", OP, shape(1, 7), op=OpSpec(kind)))
        assert BudaGraph("free", nodes, (Edge("x", "m"),)).node("m").shape == shape(1, 7)
    for kind in (IN, NodeKind.PARAMETER):
        nodes = (Node("w", kind, shape(4, 4)), Node("e", OP, shape(4, 4), op=OpSpec("exp")))
        assert BudaGraph("back", nodes, (Edge("w", "e"), Edge("e", "w"))).users("e")[0].consumer == "w"


PATTERN = SparsePattern(4, 6, ())
TWO = OpSpec("fused_op", fused=Fused(2, 0, ()))
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
        (
            (X, W, op("sparse_matmul", 4, 6, sparse=PATTERN)),
            BOTH,
            "m: expected a left operand of 4x6 tiles, got 1x4x4 tiles",
        ),
        (
            (X, W, op("matmul", 4, 6, sparse=PATTERN)),
            BOTH,
            "m: expected a pattern for a sparse_matmul and for it alone",
        ),
        ((X, Node("m", OP, shape(4, 4), op=TWO)), (Edge("x", "m", 0),), "^m: expected 2 operands, got 1$"),
        ((X, EXP, EXP), (), "expected unique names, got e twice"),
        ((X, EXP, EXP, X), (), "expected unique names, got x twice"),
        ((X, EXP), (Edge("e", "e"),), "expected e before e, got it after"),
    ],
)
def test_an_inconsistent_graph_is_refused(nodes: tuple[Node, ...], edges: tuple[Edge, ...], expected: str) -> None:
    with pytest.raises(CompilerInputError, match=expected):
        BudaGraph("bad", nodes, edges)
