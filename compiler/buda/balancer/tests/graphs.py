"""Graphs that the tests plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.buda.sparse_pattern import SparsePattern

INPUT, PARAMETER, CONSTANT = NodeKind.INPUT, NodeKind.PARAMETER, NodeKind.CONSTANT
OP, OUTPUT = NodeKind.OP, NodeKind.OUTPUT


def shape(rt: int, ct: int, z: int = 1) -> TensorShape:
    return TensorShape(1, z, rt, ct)


def tms(text: str) -> tuple[Tm, ...]:
    return tuple(Tm.parse(part) for part in text.split(";") if part)


def moved(before: TensorShape, text: str) -> TensorShape:
    """The shape behind TMs."""
    for tm in tms(text):
        before = tm.apply(before)
    return before


def arrows(text: str, by: Mapping[str, str] | None = None) -> tuple[Edge, ...]:
    """Edges as `x>m w>m m>y`: each is the consumer's next operand, or one of a number (`w>m.1`); `by` has their TMs."""
    edges, counts = [], Counter[str]()
    for word in text.split():
        ends, _, number = word.partition(".")
        producer, _, consumer = ends.partition(">")
        edges.append(Edge(producer, consumer, int(number or counts[consumer]), tms((by or {}).get(ends, ""))))
        counts[consumer] += 1
    return tuple(edges)


def graph(
    name: str, nodes: str, edges: str, by: Mapping[str, str] | None = None, fmt: str = "Float16_b", **specs: OpSpec
) -> BudaGraph:
    """A graph by its nodes, as `x=4x8 w=8x2:parameter m=4x2:matmul y=4x2:output`, and its edges.

    A node has its tiles, rows by columns (by z), and its kind or op, an input by default; `specs` say more of ops.
    """
    made = []
    for word in nodes.split():
        node, _, rest = word.partition("=")
        tiles, _, what = rest.partition(":")
        kind = NodeKind(what or "input") if what in ("", "parameter", "constant", "output") else OP
        spec = specs.get(node, OpSpec(what)) if kind is OP else None
        made.append(Node(node, kind, shape(*map(int, tiles.split("x"))), fmt, spec))
    return BudaGraph(name, tuple(made), arrows(edges, by))


def size(tiles: TensorShape) -> str:
    """A shape as `graph` reads it."""
    return f"{tiles.rt}x{tiles.ct}x{tiles.z}"


def matmul(m: int, k: int, n: int, fmt: str = "Float16_b", z: int = 1, out_of: str = "", **spec: object) -> BudaGraph:
    """x @ w, with the TMs `out_of` on the result's edge."""
    nodes = f"x={m}x{k}x{z} w={k}x{n}x{z}:parameter mm={m}x{n}x{z}:matmul y={m}x{n}x{z}:output"
    return graph("matmul", nodes, "x>mm w>mm mm>y", {"mm>y": out_of}, fmt, mm=OpSpec("matmul", **spec))


def unary(rt: int, ct: int, op: str = "exp", fmt: str = "Float16_b", into: str = "", **spec: object) -> BudaGraph:
    """op(x), with the TMs `into` on x's edge: x has the shape before them."""
    after = size(moved(shape(rt, ct), into))
    nodes = f"x={rt}x{ct} op={after}:{op} y={after}:output"
    return graph(op, nodes, "x>op op>y", {"x>op": into}, fmt, op=OpSpec(op, **spec))


def stacked_unary(z: int, rt: int, into: str, columns: int = 2) -> BudaGraph:
    """exp of x, whose z is laid out over rows or columns on the way."""
    after = size(moved(shape(rt, columns, z), into))
    return graph("stacked", f"x={rt}x{columns}x{z} op={after}:exp y={after}:output", "x>op op>y", {"x>op": into})


def stacked_right_operand(out_of: str = "") -> BudaGraph:
    """x @ w, w laid out from four z to columns."""
    after = size(moved(shape(8, 8), out_of))
    nodes = f"x=8x4 w=4x2x4 mm=8x8:matmul next={after}:exp y={after}:output"
    return graph("stacked", nodes, "x>mm w>mm mm>next next>y", {"w>mm": "hstack(4)", "mm>next": out_of})


def then_unary(rt: int, ct: int, between: str, fmt: str = "Float16_b", **spec: object) -> BudaGraph:
    """exp of exp, with TMs between the two."""
    after = size(moved(shape(rt, ct), between))
    nodes = f"x={rt}x{ct} first={rt}x{ct}:exp second={after}:exp y={after}:output"
    by, edges = {"first>second": between}, "x>first first>second second>y"
    return graph("pair", nodes, edges, by, fmt, first=OpSpec("exp", **spec))


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
    nodes = "x=8x4 w=4x12:parameter mm=8x12:matmul e=8x12:exp sum=8x12:add prod=8x12:multiply y=8x12:output"
    return graph("fork", nodes, "x>mm w>mm mm>e mm>sum e>sum sum>prod e>prod prod>y")


def two_matmuls() -> BudaGraph:
    """exp(exp(x)) @ exp(w)."""
    nodes = "x=8x8 w=8x8 first=8x8:exp left=8x8:exp right=8x8:exp product=8x8:matmul y=8x8:output"
    return graph("product", nodes, "x>first first>left w>right left>product right>product product>y")


def z_pair(z: int = 4) -> BudaGraph:
    """exp of exp of a tensor with four z."""
    nodes = f"x=8x8x{z} first=8x8x{z}:exp second=8x8x{z}:exp y=8x8x{z}:output"
    return graph("deep", nodes, "x>first first>second second>y")


def one_tap_convolution() -> BudaGraph:
    """A convolution with a kernel of one pixel: no TMs between its two products."""
    return convolution(SparsePattern.of_convolution((16, 16), (1, 1), (1, 1), ((0, 0), (0, 0))), 4, 4)


def reduction(rt: int, ct: int, dim: str) -> BudaGraph:
    """A sum along one dimension."""
    after = f"{1 if dim == 'r' else rt}x{1 if dim == 'c' else ct}"
    nodes = f"x={rt}x{ct} op={after}:reduce y={after}:output"
    return graph("reduction", nodes, "x>op op>y", op=OpSpec("reduce", reduce_dim=dim))


def sum_of(inputs: int, rt: int, ct: int) -> BudaGraph:
    """An op with many inputs of one shape."""
    nodes = [Node(f"x{i}", INPUT, shape(rt, ct)) for i in range(inputs)]
    after = [Node("op", OP, shape(rt, ct), op=OpSpec("add")), Node("y", OUTPUT, shape(rt, ct))]
    edges = [Edge(node.name, "op", i) for i, node in enumerate(nodes)]
    return BudaGraph("sum", (*nodes, *after), (*edges, Edge("op", "y")))


def product_of_products() -> BudaGraph:
    """A tiny product whose result a large one repeats."""
    nodes = "x=4x4 w=4x3:parameter small=4x3:matmul v=96x96:parameter large=48x96:matmul y=48x96:output"
    repeated = {"small>large": "broadcast(r, 12);broadcast(c, 32)"}
    return graph("products", nodes, "x>small w>small v>large.1 large>y small>large.0", repeated)
