"""The solver against exhaustive search: what is left has partners, what is gone had none, choices fit together."""

from __future__ import annotations

from functools import cache

import pytest

from opscope.base.tests.covered import covered
from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.constraints import EdgeFailureReason, End, edge_failure
from opscope.compiler.buda.balancer.legalizer import legalize_graph
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.solver import Solver
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, Edge
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board

BUDGET = Budget.of(load_board("grayskull"))
GRAPHS = {
    "convolution": graphs.seed_convolution(),
    "transpose": graphs.then_unary(8, 12, "transpose"),
    "slices": graphs.then_unary(8, 12, "hslice(2)"),
    "broadcast": graphs.then_unary(8, 1, "broadcast(c, 4)"),
    "chain": graphs.chain(6),
    "fork": graphs.fork(),
}


@cache
def models_of(name: str) -> dict[str, tuple[OpModel, ...]]:
    """The legal op models of one of the graphs, by op."""
    return {op: legal.models for op, legal in legalize_graph(GRAPHS[name], BUDGET).items()}


def solver_of(name: str) -> Solver:
    return Solver(GRAPHS[name], models_of(name))


def inner_edges(graph: BudaGraph) -> list[Edge]:
    return [e for e in graph.edges if graph.node(e.producer).op is not None and graph.node(e.consumer).op is not None]


def fits(graph: BudaGraph, edge: Edge, producer: OpModel, consumer: OpModel) -> bool:
    return edge_failure(graph, edge, producer.stream, End.of(consumer, edge.operand)) is None


@pytest.mark.parametrize("name", covered(GRAPHS, {"convolution": "slices"}))  # of more op models
def test_what_is_left_is_the_largest_consistent_set(name: str) -> None:
    graph, solver = GRAPHS[name], solver_of(name)
    edges = [edge for edge in inner_edges(graph) if edge not in solver.cuts]
    left = {op: list(models) for op, models in models_of(name).items()}
    changed = True
    while changed:
        changed = False
        for edge in edges:
            made, taken = left[edge.producer], left[edge.consumer]
            kept = [m for m in made if any(fits(graph, edge, m, c) for c in taken)]
            also = [c for c in taken if any(fits(graph, edge, m, c) for m in made)]
            changed |= len(kept) < len(made) or len(also) < len(taken)
            left[edge.producer], left[edge.consumer] = kept, also
    assert {node.name: len(solver.at(node.name)) for node in graph.ops} == {n: len(m) for n, m in left.items()}


@pytest.mark.parametrize("name", covered(GRAPHS, {"convolution": "slices"}))  # of more op models
def test_choices_fit_along_every_edge(name: str) -> None:
    graph = GRAPHS[name]
    for pick in (0, -1):
        solver, chosen = solver_of(name), {}
        for node in graph.ops:
            chosen[node.name] = solver.at(node.name)[pick]
            solver.set(node.name, chosen[node.name])
        for edge in inner_edges(graph):
            assert edge in solver.cuts or fits(graph, edge, chosen[edge.producer], chosen[edge.consumer])


def test_a_convolution_forces_z_major_gathering() -> None:
    """TT-Buda: behind vslice and hstack the gathering op streams RZ and the dense matmul R, or neither streams."""
    solver = solver_of("convolution")
    assert {m.stream.dir for m in solver.at("gather") if not m.stream.none} == {"RZ"}
    assert {m.stream.dir for m in solver.at("mm")} == {"R"}
    gather = next(m for m in solver.at("gather") if not m.stream.none)
    solver.set("gather", gather)
    assert {m.stream.r for m in solver.at("mm")} == {gather.stream.r}


def test_rewind_restores_everything() -> None:
    graph, solver = GRAPHS["fork"], solver_of("fork")
    before = {node.name: solver.domain(node.name) for node in graph.ops}
    cuts = list(solver.cuts)
    mark = solver.mark()
    for node in graph.ops:
        solver.set(node.name, solver.at(node.name)[-1])
    assert {node.name: solver.domain(node.name) for node in graph.ops} != before
    solver.rewind(mark)
    assert {node.name: solver.domain(node.name) for node in graph.ops} == before
    assert solver.cuts == cuts


def test_an_edge_without_partners_is_cut() -> None:
    """The producer cannot hold its output whole, and a broadcast behind it forbids streaming it."""
    graph = graphs.chain(2)
    models = {name: legal.models for name, legal in legalize_graph(graph, BUDGET).items()}
    first, second = (node.name for node in graph.ops)
    by_rows = tuple(m for m in models[first] if m.stream == StreamFactor("R", 2, 1))
    by_cols = tuple(m for m in models[second] if m.stream == StreamFactor("C", 1, 2))
    solver = Solver(graph, {first: by_rows, second: by_cols})
    assert [(edge.producer, edge.consumer) for edge in solver.cuts] == [(first, second)]
    assert solver.at(first) == by_rows


def test_a_model_that_fits_to_no_other_is_gone_wherever_it_stands() -> None:
    """Of one op there is only a model that is cut by rows, of the other that and one that is cut by columns."""
    graph = graphs.chain(2)
    legal = legalize_graph(graph, BUDGET)["e0"].models
    by_rows, by_cols = (
        next(m for m in legal if m.stream == cut and m.grid == Grid(1, 1))
        for cut in (StreamFactor("R", 2, 1), StreamFactor("C", 1, 2))
    )
    for both in ((by_rows, by_cols), (by_cols, by_rows)):
        for models in ({"e0": (by_rows,), "e1": both}, {"e0": both, "e1": (by_rows,)}):
            solver = Solver(graph, models)
            assert not solver.cuts
            assert (solver.at("e0"), solver.at("e1")) == ((by_rows,), (by_rows,))
    alone = Solver(graphs.unary(4, 12), {"op": (by_rows, by_cols)})
    assert alone.domain("op") == 0b11


def test_only_possible_models_are_chosen() -> None:
    solver = solver_of("convolution")
    first, other = solver.at("gather")[:2]
    solver.set("gather", first)
    with pytest.raises(CompilerInputError, match=r"gather: expected one of 1 possible op models"):
        solver.set("gather", other)


def end(direction: str, r: int, c: int, grid: Grid = Grid(1, 1), rt: int = 1, ct: int = 1) -> End:  # noqa: B008
    return End(StreamFactor(direction, r, c), grid, BlockShape(r * c, 8 // rt, 8 // ct, UBlock(rt, ct)))


MATMUL = graphs.two_matmuls()
LEFT, RIGHT = (edge for edge in MATMUL.operands("product"))
CONV = GRAPHS["convolution"]
STEP = Edge("first", "second")
PLAIN = graphs.then_unary(8, 8, "hslice(1)")
CASES = [
    (EdgeFailureReason.TStreamIncompatibleConsumer, PLAIN, STEP, end("R", 2, 1), end("R", 4, 1)),
    (EdgeFailureReason.TStreamIllegalTStreamDir, graphs.z_pair(), STEP, end("RZ", 2, 1), end("R", 2, 1)),
    (EdgeFailureReason.TStreamIllegalTStreamDir, CONV, CONV.operands("mm")[0], end("R", 2, 1), end("R", 2, 1)),
    (EdgeFailureReason.TStreamBlockIncompatible, PLAIN, STEP, end("R", 4, 1), end("R", 1, 1, rt=4)),
    (EdgeFailureReason.TStreamAntiUblockOrderStacking, PLAIN, STEP, end("C", 1, 8), end("C", 1, 1, rt=8)),
    (EdgeFailureReason.TStreamMatmulStreamingSide, MATMUL, RIGHT, end("R", 2, 1), end("R", 2, 1)),
    (EdgeFailureReason.TStreamNotDivisableRow, PLAIN, STEP, end("R", 2, 1), end("R", 1, 1, Grid(3, 1))),
    (
        EdgeFailureReason.TStreamNotDivisableColumn,
        MATMUL,
        Edge("first", "left"),
        end("C", 1, 2),
        end("C", 1, 1, Grid(1, 3)),
    ),
]


@pytest.mark.parametrize(("reason", "graph", "edge", "made", "taken"), CASES, ids=lambda v: getattr(v, "name", ""))
def test_edge_reasons(reason: EdgeFailureReason, graph: BudaGraph, edge: Edge, made: End, taken: End) -> None:
    assert edge_failure(graph, edge, made.stream, taken) is reason


def test_a_matmul_does_not_stream_behind_a_sparse_one_that_does_not() -> None:
    graph = graphs.one_tap_convolution()
    edge = graph.operands("mm")[0]
    reason = EdgeFailureReason.ConvSliceStackMatmulStreamingHang
    assert edge_failure(graph, edge, StreamFactor("R", 1, 1), end("R", 2, 1)) is reason
