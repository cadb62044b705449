"""Graphs that the tests plan."""

from __future__ import annotations

from itertools import pairwise

from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.buda.sparse_pattern import SparsePattern

INPUT, PARAMETER, CONSTANT = NodeKind.INPUT, NodeKind.PARAMETER, NodeKind.CONSTANT
OP, OUTPUT = NodeKind.OP, NodeKind.OUTPUT


def shape(rt: int, ct: int, z: int = 1) -> TensorShape:
    return TensorShape(1, z, rt, ct)


def tms(text: str) -> tuple[Tm, ...]:
    return tuple(Tm.parse(part) for part in text.split(";") if part)


def matmul(m: int, k: int, n: int, fmt: str = "Float16_b", z: int = 1, out_of: str = "", **spec: object) -> BudaGraph:
    """x @ w, with the TMs `out_of` on the result's edge."""
    nodes = (
        Node("x", INPUT, shape(m, k, z), fmt),
        Node("w", PARAMETER, shape(k, n, z), fmt),
        Node("mm", OP, shape(m, n, z), fmt, OpSpec("matmul", **spec)),
        Node("y", OUTPUT, shape(m, n, z), fmt),
    )
    return BudaGraph("matmul", nodes, (Edge("x", "mm", 0), Edge("w", "mm", 1), Edge("mm", "y", 0, tms(out_of))))


def unary(rt: int, ct: int, op: str = "exp", fmt: str = "Float16_b", into: str = "", **spec: object) -> BudaGraph:
    """op(x), with the TMs `into` on x's edge: x has the shape before them."""
    before = shape(rt, ct)
    after = before
    for tm in tms(into):
        after = tm.apply(after)
    nodes = (
        Node("x", INPUT, before, fmt),
        Node("op", OP, after, fmt, OpSpec(op, **spec)),
        Node("y", OUTPUT, after, fmt),
    )
    return BudaGraph(op, nodes, (Edge("x", "op", 0, tms(into)), Edge("op", "y")))


def stacked_unary(z: int, rt: int, into: str, columns: int = 2) -> BudaGraph:
    """exp of x, whose z is laid out over rows or columns on the way."""
    after = shape(rt, columns, z)
    for tm in tms(into):
        after = tm.apply(after)
    nodes = (Node("x", INPUT, shape(rt, columns, z)), Node("op", OP, after, op=OpSpec("exp")), Node("y", OUTPUT, after))
    return BudaGraph("stacked", nodes, (Edge("x", "op", 0, tms(into)), Edge("op", "y")))


def stacked_right_operand(out_of: str = "") -> BudaGraph:
    """x @ w, w laid out from four z to columns."""
    result = shape(8, 8)
    after = result
    for tm in tms(out_of):
        after = tm.apply(after)
    nodes = (
        Node("x", INPUT, shape(8, 4)),
        Node("w", INPUT, shape(4, 2, 4)),
        Node("mm", OP, result, op=OpSpec("matmul")),
        Node("next", OP, after, op=OpSpec("exp")),
        Node("y", OUTPUT, after),
    )
    edges = (Edge("x", "mm", 0), Edge("w", "mm", 1, tms("hstack(4)")), Edge("mm", "next", 0, tms(out_of)))
    return BudaGraph("stacked", nodes, (*edges, Edge("next", "y")))


def then_unary(rt: int, ct: int, between: str, fmt: str = "Float16_b", **spec: object) -> BudaGraph:
    """exp of exp, with TMs between the two."""
    after = shape(rt, ct)
    for tm in tms(between):
        after = tm.apply(after)
    nodes = (
        Node("x", INPUT, shape(rt, ct), fmt),
        Node("first", OP, shape(rt, ct), fmt, OpSpec("exp", **spec)),
        Node("second", OP, after, fmt, OpSpec("exp")),
        Node("y", OUTPUT, after, fmt),
    )
    edges = (Edge("x", "first"), Edge("first", "second", 0, tms(between)), Edge("second", "y"))
    return BudaGraph("pair", nodes, edges)


def convolution(
    pattern: SparsePattern, channels: int, filters: int, fmt: str = "Float16_b", **spec: object
) -> BudaGraph:
    """A convolution as TT-Buda has it: gather by a sparse matmul, taps side by side, a dense matmul. In tiles."""
    taps, rows = pattern.taps, pattern.rows // pattern.taps
    nodes = (
        Node("picker", CONSTANT, shape(pattern.rows, pattern.cols), "Bfp2_b"),
        Node("x", INPUT, shape(pattern.cols, channels), fmt),
        Node("w", PARAMETER, shape(taps * channels, filters), fmt),
        Node("gather", OP, shape(pattern.rows, channels), fmt, OpSpec("sparse_matmul", "HiFi2", sparse=pattern)),
        Node("mm", OP, shape(rows, filters), fmt, OpSpec("matmul", **spec)),
        Node("y", OUTPUT, shape(rows, filters), fmt),
    )
    edges = (
        Edge("picker", "gather", 0),
        Edge("x", "gather", 1),
        Edge("gather", "mm", 0, tms(f"vslice({taps});hstack({taps})") if taps > 1 else ()),
        Edge("w", "mm", 1),
        Edge("mm", "y"),
    )
    return BudaGraph("convolution", nodes, edges)


def seed_convolution() -> BudaGraph:
    """A quarter of ResNet-50's first convolution as it reaches the balancer: 112 x 112 pixels, 64 filters, 4 taps.

    Prestride has made the 7x7 kernel 4x4 taps of 12 channels, in a tile each; this is the first row of them.
    """
    picker = SparsePattern.of_convolution((112, 112), (1, 4), (1, 1), ((2, -2), (2, 1)))
    return convolution(picker, 1, 2)


def chain(length: int, rt: int = 4, ct: int = 12, op: str = "exp") -> BudaGraph:
    """One op after another."""
    nodes = [Node("x", INPUT, shape(rt, ct)), *(Node(f"e{i}", OP, shape(rt, ct), op=OpSpec(op)) for i in range(length))]
    nodes.append(Node("y", OUTPUT, shape(rt, ct)))
    return BudaGraph("chain", tuple(nodes), tuple(Edge(a.name, b.name) for a, b in pairwise(nodes)))


def fork() -> BudaGraph:
    """A product that is both added to and multiplied by its own exponential."""
    nodes = (
        Node("x", INPUT, shape(8, 4)),
        Node("w", PARAMETER, shape(4, 12)),
        Node("mm", OP, shape(8, 12), op=OpSpec("matmul")),
        Node("e", OP, shape(8, 12), op=OpSpec("exp")),
        Node("sum", OP, shape(8, 12), op=OpSpec("add")),
        Node("prod", OP, shape(8, 12), op=OpSpec("multiply")),
        Node("y", OUTPUT, shape(8, 12)),
    )
    edges = (
        Edge("x", "mm", 0),
        Edge("w", "mm", 1),
        Edge("mm", "e"),
        Edge("mm", "sum", 0),
        Edge("e", "sum", 1),
        Edge("sum", "prod", 0),
        Edge("e", "prod", 1),
        Edge("prod", "y"),
    )
    return BudaGraph("fork", nodes, edges)


def two_matmuls() -> BudaGraph:
    """exp(exp(x)) @ exp(w)."""
    nodes = (
        Node("x", INPUT, shape(8, 8)),
        Node("w", INPUT, shape(8, 8)),
        Node("first", OP, shape(8, 8), op=OpSpec("exp")),
        Node("left", OP, shape(8, 8), op=OpSpec("exp")),
        Node("right", OP, shape(8, 8), op=OpSpec("exp")),
        Node("product", OP, shape(8, 8), op=OpSpec("matmul")),
        Node("y", OUTPUT, shape(8, 8)),
    )
    edges = (
        Edge("x", "first"),
        Edge("first", "left"),
        Edge("w", "right"),
        Edge("left", "product", 0),
        Edge("right", "product", 1),
    )
    return BudaGraph("product", nodes, (*edges, Edge("product", "y")))


def z_pair(z: int = 4) -> BudaGraph:
    """exp of exp of a tensor with four z."""
    deep = shape(8, 8, z)
    nodes = (
        Node("x", INPUT, deep),
        Node("first", OP, deep, op=OpSpec("exp")),
        Node("second", OP, deep, op=OpSpec("exp")),
        Node("y", OUTPUT, deep),
    )
    return BudaGraph("deep", nodes, (Edge("x", "first"), Edge("first", "second"), Edge("second", "y")))


def one_tap_convolution() -> BudaGraph:
    """A convolution with a kernel of one pixel: no TMs between its two products."""
    return convolution(SparsePattern.of_convolution((16, 16), (1, 1), (1, 1), ((0, 0), (0, 0))), 4, 4)


def reduction(rt: int, ct: int, dim: str) -> BudaGraph:
    """A sum along one dimension."""
    after = shape(1 if dim == "r" else rt, 1 if dim == "c" else ct)
    nodes = (
        Node("x", INPUT, shape(rt, ct)),
        Node("op", OP, after, op=OpSpec("reduce", reduce_dim=dim)),
        Node("y", OUTPUT, after),
    )
    return BudaGraph("reduction", nodes, (Edge("x", "op"), Edge("op", "y")))


def sum_of(inputs: int, rt: int, ct: int) -> BudaGraph:
    """An op with many inputs of one shape."""
    nodes = [Node(f"x{i}", INPUT, shape(rt, ct)) for i in range(inputs)]
    after = [Node("op", OP, shape(rt, ct), op=OpSpec("add")), Node("y", OUTPUT, shape(rt, ct))]
    edges = [Edge(node.name, "op", i) for i, node in enumerate(nodes)]
    return BudaGraph("sum", (*nodes, *after), (*edges, Edge("op", "y")))


def product_of_products() -> BudaGraph:
    """A tiny product whose result a large one repeats."""
    nodes = (
        Node("x", INPUT, shape(4, 4)),
        Node("w", PARAMETER, shape(4, 3)),
        Node("small", OP, shape(4, 3), op=OpSpec("matmul")),
        Node("v", PARAMETER, shape(96, 96)),
        Node("large", OP, shape(48, 96), op=OpSpec("matmul")),
        Node("y", OUTPUT, shape(48, 96)),
    )
    edges = (
        Edge("x", "small", 0),
        Edge("w", "small", 1),
        Edge("v", "large", 1),
        Edge("large", "y"),
        Edge("small", "large", 0, tms("broadcast(r, 12);broadcast(c, 32)")),
    )
    return BudaGraph("products", nodes, edges)
