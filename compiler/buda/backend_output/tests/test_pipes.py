"""Pipes part by part: numbers of tiles after TMs, who has them, who takes them, and the way between, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from opscope.compiler.buda.backend_output.pipes import (
    Pipe,
    Run,
    _cut,
    _owners,
    _route,
    _runs,
    _shares,
    pipes_of,
    tile_numbers,
)
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.plan import BlockPlan, PlacedOp
from opscope.compiler.target.system_desc import load_board

PLAIN = StreamFactor()


@pytest.mark.parametrize(
    ("tm", "expected"),
    [
        ("transpose", [[[0, 2], [1, 3]], [[4, 6], [5, 7]]]),
        ("hslice(2)", [[[0], [2]], [[1], [3]], [[4], [6]], [[5], [7]]]),
        ("vslice(2)", [[[0, 1]], [[2, 3]], [[4, 5]], [[6, 7]]]),
        ("hstack(2)", [[[0, 1, 4, 5], [2, 3, 6, 7]]]),
        ("vstack(2)", [[[0, 1], [2, 3], [4, 5], [6, 7]]]),
        ("broadcast(z, 2)", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]] * 2),
        ("broadcast(r, 2)", [[[0, 1], [2, 3]] * 2, [[4, 5], [6, 7]] * 2]),
        ("broadcast(c, 2)", [[[0, 1] * 2, [2, 3] * 2], [[4, 5] * 2, [6, 7] * 2]]),
        ("buda_pad(1, 2)", [[[0, 1, -1, -1], [2, 3, -1, -1], [-1] * 4], [[4, 5, -1, -1], [6, 7, -1, -1], [-1] * 4]]),
        ("buda_unpad(0, 1)", [[[0], [2]], [[4], [6]]]),
        ("buda_unpad(1, 0)", [[[0, 1]], [[4, 5]]]),
        ("tile_broadcast(r)", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]),
    ],
)
def test_numbers_of_tiles_after_a_tm(tm: str, expected: list) -> None:
    for shape in (TensorShape(1, 2, 2, 2), TensorShape(2, 1, 2, 2)):
        assert tile_numbers(shape, (Tm.parse(tm),)).tolist() == expected


def placed(grid: tuple[int, int], row: int = 0, col: int = 0, transposed: bool = False) -> PlacedOp:
    return PlacedOp("op", 0, 0, 0, row, col, grid, transposed, "R", (1, 1), BlockPlan(), 1, 1, "r", ())


def test_tiles_arrive_in_runs_of_neighbours_on_one_core() -> None:
    """Tiles 0 to 3 are on the first core, 4 to 7 on the second; zeros come from nowhere."""
    where = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 2, 3, 0, 1, 2, 3])
    tiles = np.array([-1, 1, 2, 3, 4, 5, 7, 6, -1, 0])
    sender = placed((1, 2), 3, 4)
    assert list(_runs(tiles, where, sender)) == [
        Run((3, 4), 1, 3),
        Run((3, 5), 0, 2),
        Run((3, 5), 3, 1),
        Run((3, 5), 2, 1),
        Run((3, 4), 0, 1),
    ]
    # On its side, and in a grid of two rows: core 1 of the model is the second row.
    assert [run.core for run in _runs(tiles, where, placed((1, 2), 3, 4, transposed=True))][:2] == [(3, 4), (4, 4)]
    turned = placed((2, 2), 3, 4, transposed=True)
    assert [run.core for run in _runs(np.array([0, 4]), where, turned)] == [(3, 4), (4, 4)]
    # Through a queue a tile's number is its place.
    for queue in (None, sender):
        assert list(_runs(tiles, None, queue)) == [Run(None, 1, 5), Run(None, 7, 1), Run(None, 6, 1), Run(None, 0, 1)]
    assert list(_runs(np.array([-1, -1]), where, sender)) == []
    # Neighbours by place alone are none: the last tile of one core and the next place on another.
    assert list(_runs(np.array([1, 6]), where, sender)) == [Run((3, 4), 1, 1), Run((3, 5), 2, 1)]


@pytest.mark.parametrize(
    ("arch", "source", "target", "hops"),
    [
        ("grayskull", (0, 0), (1, 2), [(1, 1), (2, 1), (3, 1), (3, 2)]),
        ("grayskull", (4, 11), (5, 0), [(12, 5), (0, 5), (1, 5), (1, 6), (1, 7)]),  # past the edge, and row 6 of DRAM
        ("wormhole_b0", (9, 2), (0, 2), [(3, 11), (3, 0), (3, 1)]),
        ("wormhole_b0", (3, 3), (3, 4), [(4, 4), (5, 4), (6, 4)]),
        ("wormhole_b0", (3, 3), (3, 3), [(4, 4)]),
    ],
)
def test_a_route_goes_right_then_down_and_round_the_edges(
    arch: str, source: tuple[int, int], target: tuple[int, int], hops: list[tuple[int, int]]
) -> None:
    assert list(_route(arch, source, target)) == hops


def model(
    spec: OpSpec, output: BlockShape, grid: Grid, stream: StreamFactor = PLAIN, right: BlockShape | None = None
) -> OpModel:
    """An op model; `right` is the block of a product's right operand, which says how deep its inner blocks are."""
    whole = BufferModel.whole(output, 1, "Float16_b")
    inputs = (whole, BufferModel.whole(right, 1, "Float16_b")) if right is not None else (whole,)
    return OpModel(spec, grid, stream, inputs, whole, (), (), (), 1)


def node(kind: str, shape: TensorShape, **spec: Any) -> Node:
    return Node("op", NodeKind.OP, shape, op=OpSpec(kind, **spec))


def test_a_core_makes_its_share_piece_by_piece() -> None:
    """2x2 cores; each number is core * 10 + place."""
    shape = TensorShape(1, 1, 4, 4)
    exp = node("exp", shape)

    def made(op: Node, grid: Grid, stream: StreamFactor) -> list:
        block = BlockShape.of(op.shape, grid, stream, UBlock(1, 1))
        core, place = _owners(op, model(op.spec, block, grid, stream))
        return (core * 10 + place).reshape(-1, op.shape.rt, op.shape.ct).tolist()

    assert made(exp, Grid(2, 2), PLAIN) == [[[0, 1, 10, 11], [2, 3, 12, 13], [20, 21, 30, 31], [22, 23, 32, 33]]]
    # Two pieces of rows: rows 0 and 2 are the first core's.
    assert made(exp, Grid(2, 1), StreamFactor("R", 2)) == [
        [[0, 1, 2, 3], [10, 11, 12, 13], [4, 5, 6, 7], [14, 15, 16, 17]]
    ]
    assert made(exp, Grid(1, 2), StreamFactor("C", 1, 2)) == [
        [[0, 10, 4, 14], [1, 11, 5, 15], [2, 12, 6, 16], [3, 13, 7, 17]]
    ]
    # Two z: all pieces of the first one come first, or in z-major order both z of the first piece.
    deep = node("exp", TensorShape(1, 2, 2, 1))
    assert made(deep, Grid(1, 1), StreamFactor("R", 2)) == [[[0], [1]], [[2], [3]]]
    assert made(deep, Grid(1, 1), StreamFactor("RZ", 2)) == [[[0], [2]], [[1], [3]]]
    both = node("exp", TensorShape(2, 1, 2, 2))
    assert made(both, Grid(1, 1), StreamFactor("R", 2, 2)) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def shares(graph: BudaGraph, name: str, chosen: OpModel) -> list[list[tuple[list[tuple[int, int]], list[int]]]]:
    """Per operand: who reads which tiles."""
    streams = []
    for edge in graph.operands(name):
        numbers = tile_numbers(graph.node(edge.producer).shape, edge.tms)
        taken = _shares(graph, graph.node(name), chosen, edge, numbers)
        streams.append([(readers, tiles.tolist()) for readers, tiles in taken])
    return streams


def test_a_product_takes_rows_and_columns_by_inner_blocks() -> None:
    """(4x4) @ (4x2) on 2x1 cores, 2 deep: half of the rows left, blocks of two columns; right all rows, a column."""
    graph = graphs.matmul(4, 4, 2)
    deep = model(
        graph.node("mm").spec, BlockShape(1, 2, 2, UBlock(1, 1)), Grid(2, 1), PLAIN, BlockShape(1, 2, 2, UBlock(2, 1))
    )
    assert shares(graph, "mm", deep) == [
        [([(0, 0)], [0, 1, 4, 5, 2, 3, 6, 7]), ([(1, 0)], [8, 9, 12, 13, 10, 11, 14, 15])],
        [([(0, 0), (1, 0)], [0, 1, 2, 3, 4, 5, 6, 7])],
    ]
    wide = model(
        graph.node("mm").spec, BlockShape(1, 4, 1, UBlock(1, 1)), Grid(1, 2), PLAIN, BlockShape(1, 1, 1, UBlock(4, 1))
    )
    assert shares(graph, "mm", wide) == [
        [([(0, 0), (0, 1)], list(range(16)))],
        [([(0, 0)], [0, 2, 4, 6]), ([(0, 1)], [1, 3, 5, 7])],
    ]
    # Cut in time by rows, the right operand comes again for each piece; of inner blocks that do not divide, in order.
    cut = model(
        graph.node("mm").spec,
        BlockShape(2, 2, 2, UBlock(1, 1)),
        Grid(1, 1),
        StreamFactor("R", 2),
        BlockShape(2, 1, 2, UBlock(3, 1)),
    )
    assert shares(graph, "mm", cut) == [[([(0, 0)], list(range(16)))], [([(0, 0)], 2 * list(range(8)))]]


def test_other_ops_take_what_their_cores_make() -> None:
    exp = graphs.unary(2, 2)
    by_core = [([(0, 0)], [0]), ([(0, 1)], [1]), ([(1, 0)], [2]), ([(1, 1)], [3])]
    one = BlockShape(1, 1, 1, UBlock(1, 1))
    assert shares(exp, "op", model(OpSpec("exp"), one, Grid(2, 2))) == [by_core]
    pieces = model(OpSpec("exp"), BlockShape(2, 1, 1, UBlock(1, 1)), Grid(1, 2), StreamFactor("R", 2))
    assert shares(exp, "op", pieces) == [[([(0, 0)], [0, 2]), ([(0, 1)], [1, 3])]]
    summed = graphs.reduction(2, 2, "c")
    spec = summed.node("op").spec
    assert shares(summed, "op", model(spec, one, Grid(2, 1))) == [[([(0, 0)], [0, 1]), ([(1, 0)], [2, 3])]]
    cuts = {dim: _cut(node("reduce", TensorShape(1, 1, 1, 1), reduce_dim=dim), 0) for dim in "rcz"}
    assert cuts == {"r": (False, True), "c": (True, False), "z": (True, True)}
    shape = TensorShape(1, 1, 1, 1)
    assert [_cut(node("matmul", shape), operand) for operand in range(3)] == [
        (True, False),
        (False, True),
        (True, True),
    ]
    assert [_cut(node(kind, shape), 0) for kind in ("splice", "exp")] == [(False, False), (True, True)]


def forked() -> BudaPlan:
    sizes = LegalizerOptions(overrides={"mm": OpOverride(Grid(2, 2), "n"), "e": OpOverride(Grid(1, 2), "n")})
    return plan(graphs.fork(), budget_of("e150"), "MinimizeGrid", sizes, placer=PlacerOptions(epoch_breaks=("sum",)))


def test_pipes_of_a_small_plan() -> None:
    """(8x4) @ (4x12) on 2x2 cores, its exponential on 1x2 beside them; their sum in the next epoch, through queues."""
    planned = forked()
    program = to_binary(planned, load_board("e150"))
    placed = {op.name: op for op in program.binary.plan.ops}
    rows = {op.name: [pipe.row() for pipe in pipes_of(planned, placed, op)] for op in planned.graph.ops}
    cores = {name: list(op.cores()) for name, op in placed.items()}
    assert cores["mm"] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    left, right, *_ = rows["mm"]
    assert {key: left[key] for key in ("name", "from", "readers", "multicast", "tiles", "route")} == {
        "name": "mm.input_0.0_0",
        "from": "x",
        "readers": [[0, 0], [0, 1]],
        "multicast": True,
        "tiles": 16,
        "route": [],
    }
    assert [row["name"] for row in rows["mm"]] == [
        "mm.input_0.0_0",
        "mm.input_0.1_0",
        "mm.input_1.0_0",
        "mm.input_1.0_1",
    ]
    assert right["input_list"] == [["queue", 16, 16]]
    columns = [row["input_list"] for row in rows["mm"][2:]]
    assert columns == [[["queue", first + 12 * row, 6] for row in range(4)] for first in (0, 6)]
    # A core of the exponential reads 8 rows of 6 columns: from two cores of the product, each of which has 4 rows.
    (at, other), (one, two) = cores["e"], rows["e"]
    assert (one["name"], two["name"], one["multicast"]) == ("e.input_0.0_0", "e.input_0.0_1", False)
    assert (one["readers"], two["readers"]) == ([list(at)], [list(other)])
    assert one["input_list"] == [[[0, 0], 0, 24], [[1, 0], 0, 24]]
    assert two["input_list"] == [[[0, 1], 0, 24], [[1, 1], 0, 24]]
    assert one["route"] == [list(hop) for hop in _route("grayskull", (0, 0), at)]
    # The sum reads both from queues, the product the sum from its core, and the exponential from a queue again.
    sources = {name: [[run[0] for run in row["input_list"]] for row in rows[name]] for name in ("sum", "prod")}
    assert sources == {"sum": [["queue"]] * 2, "prod": [[list(cores["sum"][0])], ["queue"]]}
    cut = SimpleNamespace(
        graph=planned.graph, choices=planned.choices, budget=planned.budget, cuts=planned.graph.operands("e")
    )
    runs = [pipe.runs for pipe in pipes_of(cut, placed, planned.graph.node("e"))]
    assert runs == [tuple(Run(None, first + 12 * row, 6) for row in range(8)) for first in (0, 6)]


def test_a_picker_has_no_pipe_and_a_column_is_shown() -> None:
    planned = plan(graphs.one_tap_convolution(), budget_of("e150"), "MinimizeGrid")
    placed = {op.name: op for op in to_binary(planned, load_board("e150")).binary.plan.ops}
    names = {
        op.name: {pipe.name.rpartition(".")[0] for pipe in pipes_of(planned, placed, op)} for op in planned.graph.ops
    }
    assert names == {"gather": {"gather.input_1"}, "mm": {"mm.input_0", "mm.input_1"}}
    shape = TensorShape(1, 1, 2, 2)
    nodes = (
        Node("x", NodeKind.INPUT, shape),
        Node("v", NodeKind.PARAMETER, TensorShape(1, 1, 2, 1)),
        Node("a", NodeKind.OP, shape, op=OpSpec("add")),
        Node("y", NodeKind.OUTPUT, shape),
    )
    column = tuple(Tm.parse(text) for text in ("tile_broadcast(c)", "broadcast(c, 2)"))
    graph = BudaGraph("column", nodes, (Edge("x", "a", 0), Edge("v", "a", 1, column), Edge("a", "y")))
    planned = plan(graph, budget_of("e150"), "MinimizeGrid")
    placed = {op.name: op for op in to_binary(planned, load_board("e150")).binary.plan.ops}
    whole, repeated = pipes_of(planned, placed, graph.node("a"))
    assert (whole.broadcast_in_tile, repeated.broadcast_in_tile) == ("", "c")
    assert "tile_broadcast" not in whole.row()
    assert repeated.row()["tile_broadcast"] == "c"
    assert repeated.row()["input_list"] == [["queue", 0, 1], ["queue", 0, 2], ["queue", 1, 1]]


def test_a_pipe_as_it_is_written() -> None:
    pipe = Pipe("p", "x", ((0, 1), (0, 2)), (Run((3, 4), 5, 6), Run(None, 7, 8)), ((9, 10),), "")
    assert pipe.row() == {
        "name": "p",
        "from": "x",
        "readers": [[0, 1], [0, 2]],
        "multicast": True,
        "tiles": 14,
        "input_list": [[[3, 4], 5, 6], ["queue", 7, 8]],
        "route": [[9, 10]],
    }
    assert Pipe("p", "x", ((0, 1),), (), (), "r").row()["multicast"] is False
