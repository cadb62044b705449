"""From a netlist to a graph and a plan: shapes, places and settings of each queue and op."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opscope.compiler.buda.graph import NodeKind, OpSpec, Slices, TensorShape
from opscope.compiler.buda.netlist.model import HOST, Graph, Netlist, Program, Queue
from opscope.compiler.buda.netlist.tests.test_check import FORMAT, ONE, op, queue
from opscope.compiler.buda.netlist.to_binary import (
    _executed,
    _queue_shape,
    _shape,
    _stream,
    elements_of,
    elements_of_queue,
    graph_of,
    spec_of,
    to_binary,
)
from opscope.compiler.buda.op_options import OpOptions
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.plan import Allocation, BlockPlan, EpochPlan, QueuePlan


def netlist(*graphs: Graph, queues: tuple[Queue, ...], runs: tuple[str, ...] = ()) -> Netlist:
    programs = (Program("run", tuple(("execute", {"graph_name": name}) for name in runs)),) if runs else ()
    return Netlist("grayskull", {each.name: each for each in queues}, graphs, programs, "some")


def passed() -> Netlist:
    """f on chip 0, and behind a queue the backward g on chip 1, written for the host on its side."""
    f = op("f", "x", grid_loc=(2, 3), grid_size=(2, 1), grid_transpose=True, mblock=(1, 2), ublock_order="c")
    g = op(
        "g",
        "q",
        out_df="Float16",
        intermed_df="Float16",
        mblock=(2, 2),
        tms={0: ("transpose", "transpose")},
        attributes={"m_k": 3, "u_kt": 2},
    )
    queues = (
        queue("x", mblock=(2, 2), elements=(1, 33, 50), entries=2, type="ram", addresses=((0, 4096),)),
        queue("q", "f", grid_size=(2, 1), mblock=(1, 2), loc="dram", addresses=((3, 4096), (4, 8192)), df="Bfp8"),
        queue("y", "g", mblock=(2, 2), input_tms=("transpose",), target_device=1, addresses=((0, 65536),)),
    )
    graphs = Graph("fwd_0", 0, 1, (f,)), Graph("bwd_1", 1, 1, (g,))
    return netlist(*graphs, queues=queues, runs=("fwd_0", "bwd_1", "fwd_0"))


def test_a_netlist_as_a_graph() -> None:
    graph = graph_of(passed())
    assert [(n.name, n.kind, str(n.shape), n.data_format, n.elements) for n in graph.nodes] == [
        ("x", NodeKind.PARAMETER, "1x2x2 tiles", FORMAT, (1, 33, 50)),
        ("f", NodeKind.OP, "1x2x2 tiles", FORMAT, None),
        ("g", NodeKind.OP, "1x2x2 tiles", "Float16", None),
        ("y", NodeKind.OUTPUT, "1x2x2 tiles", "Float16", None),
    ]
    assert [(e.producer, e.consumer, e.operand, [str(tm) for tm in e.tms]) for e in graph.edges] == [
        ("x", "f", 0, []),
        ("f", "g", 0, ["transpose", "transpose"]),
        ("g", "y", 0, ["transpose"]),
    ]
    assert graph.node("g").spec == OpSpec("exp", "HiFi3", FORMAT)


def test_a_netlist_as_a_plan() -> None:
    program = to_binary(passed())
    plan = program.binary.plan
    assert (program.binary.board, program.binary.arch, plan.name, plan.policy) == (
        "e150",
        "grayskull",
        "some",
        "netlist",
    )
    assert plan.epochs == (EpochPlan(0, 0, "forward", "fwd_0"), EpochPlan(1, 1, "backward", "bwd_1"))
    f, g = plan.ops
    assert (f.name, f.epoch, f.chip, f.row, f.col, f.grid, f.transposed) == ("f", 0, 0, 2, 3, (2, 1), True)
    assert (f.block, f.m_k, f.u_kt, f.ublock_order) == (BlockPlan(1, 1, 2, 1, 1), 1, 1, "c")
    assert (g.epoch, g.chip, g.m_k, g.u_kt, g.ublock_order, g.stream_dir, g.stream) == (1, 1, 3, 2, "r", "R", ONE)
    assert [program.graph.program.operations[each.operation].location for each in plan.ops] == ["f", "g"]
    tensor = program.graph.tensor
    assert plan.queues == (
        QueuePlan(
            "x",
            tensor["x"],
            HOST,
            "ram",
            2,
            ONE,
            BlockPlan(1, 2, 2),
            FORMAT,
            "host",
            0,
            (Allocation(0, 4096),),
            4 * 2080,
        ),
        QueuePlan(
            "q",
            tensor["f"],
            "f",
            "queue",
            1,
            (2, 1),
            BlockPlan(1, 1, 2),
            "Bfp8",
            "dram",
            0,
            (Allocation(3, 4096), Allocation(4, 8192)),
            2 * 1120,
        ),
        QueuePlan(
            "y",
            tensor["y"],
            "g",
            "queue",
            1,
            ONE,
            BlockPlan(1, 2, 2),
            FORMAT,
            "host",
            1,
            (Allocation(0, 65536),),
            4 * 2080,
        ),
    )


def test_a_product_adds_up_in_the_steps_that_the_netlist_sets() -> None:
    for attributes, steps in (({}, 0), ({"u_kt": 3}, 3)):
        matmul = op("f", "x", "w", type="matmul", attributes=attributes)
        whole = netlist(Graph("fwd_0", 0, 1, (matmul,)), queues=(queue("x"), queue("w"), queue("y", "f")))
        program = to_binary(whole).graph
        assert program.program.operations[program.operation["f"]].numerics.k_block == steps


def test_a_board_is_of_the_netlists_chip() -> None:
    assert to_binary(passed(), "e150").binary.board == "e150"
    with pytest.raises(CompilerInputError, match=r"^board: expected one with grayskull, got n150 with wormhole_b0$"):
        to_binary(passed(), "n150")


def test_what_ops_leave_of_the_reserve_is_for_pipes() -> None:
    """A core has 577,408 bytes besides the 262,144 of the reserve; the op takes 2080 for each tile that it holds."""
    whole = netlist(Graph("fwd_0", 0, 1, (op("f", "x"),)), queues=(queue("x"),))
    assert to_binary(whole).binary.plan.pipe_reserve == 262144
    for count in (200, 300, 400):
        wide = replace(whole, graphs=(Graph("fwd_0", 0, 1, (op("f", "x", input_buf_min_size_tiles=(count,)),)),))
        left = 577408 + 262144 - (count + 2) * 2080
        assert to_binary(wide).binary.plan.pipe_reserve == min(left, 262144)
    assert to_binary(netlist(queues=(queue("x"),))).binary.plan.pipe_reserve == 262144


def test_graphs_come_in_the_order_of_their_first_run() -> None:
    graphs = tuple(Graph(f"fwd_{i}", 0, 1, (op(f"f{i}", "x"),)) for i in range(3))
    whole = netlist(*graphs, queues=(queue("x"),), runs=("fwd_2", "fwd_0", "fwd_2"))
    assert list(_executed(whole, None)) == ["fwd_2", "fwd_0"]
    assert [placed.name for placed in to_binary(whole).binary.plan.ops] == ["f2", "f0"]
    assert list(_executed(replace(whole, programs=()), None)) == ["fwd_0", "fwd_1", "fwd_2"]


def test_a_queue_that_another_op_reads_is_no_output() -> None:
    first, second = Graph("fwd_0", 0, 1, (op("f", "x"),)), Graph("fwd_1", 0, 1, (op("g", "q", "x", type="add"),))
    whole = netlist(first, second, queues=(queue("x"), queue("q", "f"), queue("y", "g"), queue("z", "f")))
    graph = graph_of(whole)
    assert [n.name for n in graph.nodes if n.kind is NodeKind.OUTPUT] == ["y", "z"]
    assert [e.producer for e in graph.operands("g")] == ["f", "x"]
    circle = netlist(Graph("fwd_0", 0, 1, (op("f", "g"), op("g", "f"))), queues=(queue("x"),))
    with pytest.raises(CompilerInputError, match=r"^graphs: expected ops that do not wait for each other, got \['"):
        graph_of(circle)


def test_shapes_are_grids_of_blocks_and_pieces_in_time() -> None:
    wide = op("f", "x", t=30, grid_size=(2, 3), mblock=(4, 5), ublock=(6, 7))
    assert (_stream(wide), _shape(wide)) == (("R", ONE), TensorShape(1, 30, 48, 105))
    cut = replace(wide, attributes={"t_stream": {"dir": "C", "factor": [5, 3]}})
    assert (_stream(cut), _shape(cut)) == (("C", (5, 3)), TensorShape(1, 2, 240, 315))
    with pytest.raises(CompilerInputError, match=r"^f: expected a t of 4x3 pieces, got 30$"):
        _shape(replace(wide, attributes={"t_stream": {"dir": "C", "factor": [4, 3]}}))
    whole = queue("x", t=9, grid_size=(2, 3), mblock=(4, 5), ublock=(6, 7))
    assert _queue_shape(whole) == TensorShape(1, 9, 48, 105)
    assert elements_of_queue(replace(whole, tile_dim=(16, 32))) == (9, 768, 3360)
    assert elements_of_queue(replace(whole, elements=(1, 2, 3))) == (1, 2, 3)
    assert elements_of(replace(wide, tile_dim=(32, 16))) is None
    assert elements_of(replace(wide, attributes={"dim": "r"})) is None  # not a reduction


WINDOWS = {"size": [5, 7], "kernel": [3, 2], "stride": [2, 1], "padding": [[1, 0], [0, 2]], "dilation": [1, 2]}
PATTERN = SparsePattern.of_convolution((5, 7), (3, 2), (2, 1), ((1, 0), (0, 2)), (1, 2))
SLICES = {"dims": [2, 3], "begins": [0, 1], "ends": [2, 3], "steps": [1, 2]}
SPECS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("exp", {}, {}),
    (
        "exp",
        {"approximate_mode": True, "vector": "c", "relu_en": True, "l1_acc": True},
        {"approximate": True, "vector": "c", "relu": True, "l1_acc": True},
    ),
    ("exp", {"identity": True, "dim": "r", "sfpu_op": "gelu"}, {}),
    ("lrelu", {"slope": 0.5}, {"scalar": 0.5}),
    ("datacopy", {}, {"type": "nop"}),
    ("reduce", {"dim": "z", "z": 3}, {"reduce_dim": "z", "reduce_type": "sum", "options": OpOptions(z=3)}),
    ("reduce", {"dim": "r", "type": "max"}, {"reduce_dim": "r", "reduce_type": "max"}),
    ("matmul", {"u_kt": 2}, {}),
    ("matmul", {"sfpu_op": "gelu"}, {"activation": "gelu"}),
    ("matmul", {"sfpu_op": "invalid"}, {}),
    ("matmul", {"identity": True, "windows": WINDOWS}, {"type": "sparse_matmul", "sparse": PATTERN}),
    ("splice", {"slices": SLICES}, {"slices": Slices((2, 3), (0, 1), (2, 3), (1, 2))}),
]


@pytest.mark.parametrize(("kind", "attributes", "wanted"), SPECS)
def test_attributes_say_what_an_op_computes(kind: str, attributes: dict[str, Any], wanted: dict[str, Any]) -> None:
    whole = netlist(queues=())
    made = op("f", "x", type=kind, attributes=attributes, math_fidelity="LoFi", acc_df="Float16")
    assert spec_of(whole, made) == replace(OpSpec(kind, "LoFi", "Float16"), **wanted)
    apart = replace(made, intermed_df="Bfp8")
    assert spec_of(whole, apart).intermediate_format == "Bfp8"


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("reduce", {}, "f.attributes: expected those of a reduce, got KeyError('dim')"),
        ("matmul", {"identity": True}, "f.inputs: expected sparse tiles, activations and an encoding, got 1 inputs"),
        (
            "matmul",
            {"identity": True, "windows": {}},
            "f.attributes: expected those of a matmul, got KeyError('padding')",
        ),
    ],
)
def test_a_missing_attribute_is_named(kind: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(CompilerInputError) as caught:
        spec_of(netlist(queues=()), op("f", "x", type=kind, attributes=attributes))
    assert str(caught.value) == message


def test_the_queue_of_a_picker_is_a_constant_of_its_patterns_tiles() -> None:
    gather = op(
        "f", "p", "x", type="matmul", mblock=(PATTERN.rows, 1), attributes={"identity": True, "windows": WINDOWS}
    )
    queues = (queue("p", df="Bfp2_b", mblock=(9, 9)), queue("x", mblock=(PATTERN.cols, 1)), queue("y", "f"))
    graph = graph_of(netlist(Graph("fwd_0", 0, 1, (gather,)), queues=queues))
    picker = graph.node("p")
    assert (picker.kind, picker.data_format) == (NodeKind.CONSTANT, "Bfp2_b")
    assert picker.shape == TensorShape(1, 1, PATTERN.rows, PATTERN.cols)
    assert graph.node("x").kind is NodeKind.INPUT


def test_a_harvested_board_lacks_rows() -> None:
    netlist = passed()
    to_binary(netlist, "e150-harvested-2050")
    low = replace(netlist.graphs[0].ops[0], grid_loc=(8, 0))
    moved = replace(netlist, graphs=(replace(netlist.graphs[0], ops=(low,)), *netlist.graphs[1:]))
    to_binary(moved)
    with pytest.raises(CompilerInputError, match=r"expected cores of the 8x12 grid, got \[8, 0\]"):
        to_binary(moved, "e150-harvested-2050")
