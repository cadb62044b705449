"""Enumerates the candidates of an op before any check: grids, streaming directions and factors, micro blocks."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.balancer.shapes import Grid, StreamFactor, UBlock, divisors, largest_divisor
from opscope.compiler.buda.graph import BudaGraph, Edge, Node
from opscope.compiler.errors import CompilerInputError

ONE_ROW_OPS = frozenset({"embedding", "tilizer"})
"""Ops whose micro block is one tile high."""


def parallelization(node: Node) -> tuple[int, int]:
    """Returns the rows and columns over which an op can be spread, counting cores and pieces in time together."""
    rt, ct = node.shape.rt, node.shape.ct
    if node.spec.type == "reduce" and node.spec.reduce_dim in ("r", "c"):
        return (1, ct) if node.spec.reduce_dim == "r" else (rt, 1)
    return rt, ct


def grids(node: Node, budget: Budget, options: LegalizerOptions) -> tuple[Grid, ...]:
    """Returns grids that divide the op and fit the chip, rows first. Raises CompilerInputError for bad overrides."""
    rows, cols = parallelization(node)
    fitting = tuple(
        Grid(r, c)
        for r in divisors(rows)
        if r <= (1 if options.one_row else budget.grid.r)
        for c in divisors(cols)
        if c <= budget.grid.c
    )
    fixed = options.override(node.name).grid
    if fixed is None:
        return fitting
    if fixed not in fitting:
        raise CompilerInputError(
            f"{node.name}: expected a grid that divides {rows}x{cols} tiles and fits {budget.grid}, got {fixed}; "
            f"try {', '.join(str(g) for g in fitting[-4:])}"
        )
    return (fixed,)


def consumes_z_major(graph: BudaGraph, edge: Edge) -> bool:
    """Whether the edge turns a sparse matmul's rows into z and back into columns: the pattern of a convolution."""
    producer = graph.node(edge.producer)
    if producer.op is None or producer.spec.type != "sparse_matmul" or not edge.tms:
        return False
    ratio = 1
    for tm in edge.tms:
        if tm.name == "vslice":
            ratio *= tm.factor
        elif tm.name == "hstack" and ratio % tm.factor == 0:
            ratio //= tm.factor
        else:
            return False
    return ratio == 1


def stream_dirs(graph: BudaGraph, node: Node, options: LegalizerOptions) -> tuple[str, ...]:
    """Returns the directions in which the op may be cut in time."""
    fixed = options.override(node.name).stream_dir
    if fixed and fixed != "n":
        return (fixed.upper(),)
    edges = graph.operands(node.name)
    is_reduce_z = node.spec.type == "reduce" and node.spec.reduce_dim == "z"
    if is_reduce_z or any(consumes_z_major(graph, edge) for edge in edges):
        return ("R",)
    taps = node.spec.sparse.taps if node.spec.sparse is not None else 1
    if taps > 1 or any(graph.operand_shape(edge).z > 1 for edge in edges):
        return ("R", "C", "RZ")
    return ("R", "C")


def stream_factors(
    graph: BudaGraph, node: Node, grid: Grid, direction: str, options: LegalizerOptions
) -> tuple[StreamFactor, ...]:
    """Returns the factors along one direction for one grid, ascending."""
    spec, fixed = node.spec, options.override(node.name)
    first = graph.operands(node.name)[0]
    reduces_z = spec.type == "reduce" and spec.reduce_dim == "z" and graph.node(first.producer).shape.z != 1
    manual = options.manual_streaming and not fixed.stream_dir and fixed.stream_shape is None
    if (
        manual
        or not options.streaming
        or fixed.stream_dir == "n"
        or reduces_z
        or spec.padding_nop
        or spec.type in ONE_ROW_OPS
    ):
        return (StreamFactor(direction),)
    rows, cols = parallelization(node)
    if direction == "C":
        factors = [StreamFactor(direction, 1, c) for c in divisors(cols // grid.c)]
    else:
        factors = [StreamFactor(direction, r, 1) for r in divisors(rows // grid.r)]
        if spec.sparse is not None:
            inner = divisors(spec.sparse.cols)
            factors = [s for s in factors if s.none or spec.sparse.legal_inner_tiles(grid.r, s.r, s.z_major, inner)]
    return tuple(s for s in factors if fixed.stream_shape is None or (s.r, s.c) == fixed.stream_shape)


def candidates(
    graph: BudaGraph, node: Node, budget: Budget, options: LegalizerOptions
) -> Iterator[tuple[Grid, StreamFactor]]:
    """Yields every grid with every way to cut in time; the uncut one once per grid."""
    for grid in grids(node, budget, options):
        seen_whole = False
        for direction in stream_dirs(graph, node, options):
            for stream in stream_factors(graph, node, grid, direction, options):
                if not (stream.none and seen_whole):
                    yield grid, stream
                seen_whole |= stream.none


def micro_block(node: Node, block_rt: int, block_ct: int, dst_tiles: int) -> UBlock:
    """Returns the largest block of at most `dst_tiles` tiles that divides the core's share; of equals the wider."""
    max_rt = largest_divisor(block_rt, 1 if node.spec.type in ONE_ROW_OPS else dst_tiles)
    max_ct = largest_divisor(block_ct, dst_tiles)
    fitting = [UBlock(r, c) for r in divisors(max_rt) for c in divisors(max_ct) if r * c <= dst_tiles]
    return max(fitting, key=lambda block: (block.tiles, block.ct))
