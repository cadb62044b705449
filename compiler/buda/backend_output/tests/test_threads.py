"""Programs of a core's three threads, written out for each kind of op in small blocks."""

from __future__ import annotations

from typing import Any

from opscope.compiler.buda.backend_output.threads import Steps, kernel_arguments, threads, total
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec, TensorShape, Tm

BLOCK = BlockShape(5, 2, 3, UBlock(2, 4))
"""Five times 2x3 blocks of 2x4 tiles."""


def model(spec: OpSpec, *inputs: BlockShape, block: BlockShape = BLOCK) -> OpModel:
    def held(shape: BlockShape, data_format: str = "Float16_b") -> BufferModel:
        return BufferModel.whole(shape, 1, data_format)

    between = (held(block, "Bfp8_b"),)
    return OpModel(spec, Grid(1, 1), StreamFactor(), tuple(map(held, inputs)), held(block), (), between, (), 1)


def over(steps: Steps, *counts: tuple[int, str]) -> Steps:
    """The steps in loops, the outermost first."""
    for count, what in reversed(counts):
        steps = [{"loop": count, "of": what, "steps": steps}]
    return steps


BLOCKS = ((5, "t"), (2, "mblock_m"), (3, "mblock_n"))


def packed(df: str = "Float16_b", *before: dict[str, Any], **more: Any) -> Steps:
    last = [
        {"wait_dst": 8},
        {"reserve": {"buffer": "output", "tiles": 8}},
        {"pack_tiles": {"tiles": 8, "df": df, **more}},
        {"push": {"buffer": "output", "tiles": 8}},
        {"release_dst": 8},
    ]
    return over([*before, *last], *BLOCKS)


def test_a_product_unpacks_a_row_of_blocks_per_inner_block_and_spills_all_but_the_last() -> None:
    """Three tiles deep: 2 x 3 left, 3 x 4 right, of which a row of blocks has three."""
    graph = graphs.matmul(4, 12, 12, math_fidelity="HiFi2", intermediate_format="Float16", acc_format="Float16_b")
    node = graph.node("mm")
    deep = BlockShape(5, 4, 3, UBlock(3, 4))
    unpack, math, pack = threads(graph, node, model(node.spec, BLOCK, deep))
    inner = over([{"unpack_ab": {"SrcB": 6, "SrcA": 12}}], (3, "mblock_n"))
    row = [{"wait": {"buffer": "input_0", "tiles": 6}}, *inner, {"pop": {"buffer": "input_0", "tiles": 6}}]
    assert unpack == over(
        [
            {"wait": {"buffer": "input_1", "tiles": 36}},
            *over(row, (2, "mblock_m")),
            {"pop": {"buffer": "input_1", "tiles": 36}},
        ],
        (5, "t"),
        (4, "m_k"),
    )
    multiply = [
        {"acquire_dst": 8},
        {"reload": {"when": "m_k > 0", "tiles": 8, "df": "Float16"}},
        {"mvmul": {"tiles": 8, "inner_tiles": 3, "phases": 2, "acc_df": "Float16_b"}},
        {"commit_dst": 8},
    ]
    assert math == over(multiply, (5, "t"), (4, "m_k"), (6, "ublocks"))
    spill = [{"wait_dst": 8}, {"pack_tiles": {"tiles": 8, "df": "Float16", "to": "intermediate"}}, {"release_dst": 8}]
    assert pack == over([*over(spill, (3, "m_k - 1"), (6, "ublocks")), *packed()[0]["steps"]], (5, "t"))
    # Two inner blocks spill once; one never does.
    for m_k, expected in ((2, 1), (1, 0)):
        _, _, pack = threads(graph, node, model(node.spec, BLOCK, BlockShape(5, m_k, 3, UBlock(3, 4))))
        loops = [step["loop"] for step in pack[0]["steps"] if step.get("of") == "m_k - 1"]
        assert loops == [1] * expected
        assert expected or pack == packed()
    plain = graphs.matmul(4, 12, 12, fmt="Bfp8_b")
    _, math, _ = threads(plain, plain.node("mm"), model(plain.node("mm").spec, BLOCK, deep))
    assert math[0]["steps"][0]["steps"][0]["steps"][1] == {"reload": {"when": "m_k > 0", "tiles": 8, "df": "Bfp8_b"}}


def two(kind: str, **spec: Any) -> BudaGraph:
    """An op of x and a repeated column v."""
    shape = TensorShape(1, 1, 4, 12)
    nodes = (
        Node("x", NodeKind.INPUT, shape),
        Node("v", NodeKind.PARAMETER, TensorShape(1, 1, 4, 1)),
        Node("op", NodeKind.OP, shape, "Float16", OpSpec(kind, **spec)),
        Node("y", NodeKind.OUTPUT, shape),
    )
    tms = (Tm("tile_broadcast", dim="c"), Tm("broadcast", 12, "c"))
    return BudaGraph("two", nodes, (Edge("x", "op", 0), Edge("v", "op", 1, tms), Edge("op", "y")))


def test_an_elementwise_op_repeats_a_column_while_it_is_unpacked() -> None:
    graph = two("add", approximate=True, relu=True)
    unpack, math, pack = threads(graph, graph.node("op"), model(graph.node("op").spec, BLOCK, BLOCK))
    first, second = {"buffer": "input_0", "tiles": 8}, {"buffer": "input_1", "tiles": 8}
    assert unpack == over(
        [
            {"wait": first},
            {"wait": second},
            {"unpack": {"buffer": "input_0", "to": "SrcA", "tiles": 8}},
            {"unpack": {"buffer": "input_1", "to": "SrcB", "tiles": 8, "broadcast": ["c"]}},
            {"pop": first},
            {"pop": second},
        ],
        *BLOCKS,
    )
    assert math == over([{"acquire_dst": 8}, {"add": {"tiles": 8, "approximate": True}}, {"commit_dst": 8}], *BLOCKS)
    assert pack == packed("Float16", relu=True)


def test_a_reduction_goes_along_its_dimension() -> None:
    """Along rows and columns by the operand's blocks of 3x2 tiles, along z tile by tile of the result."""
    block = BlockShape(5, 1, 1, UBlock(3, 2))
    for dim, rounds, taken in (("r", 4, 6), ("c", 4, 6), ("z", 1, 8)):
        graph = graphs.reduction(12, 8, dim) if dim != "z" else graphs.unary(12, 8, "reduce", reduce_dim="z")
        node = graph.node("op")
        unpack, math, pack = threads(graph, node, model(node.spec, block))
        take = {"buffer": "input_0", "tiles": taken}
        steps = [{"wait": take}, {"unpack": {"buffer": "input_0", "to": "SrcA", "tiles": taken}}, {"pop": take}]
        assert unpack == over(steps, *BLOCKS, (rounds, f"along {dim}"))
        reduce = over([{"reduce_sum": {"tiles": taken}}], (rounds, f"along {dim}"))
        assert math == over([{"acquire_dst": 8}, *reduce, {"commit_dst": 8}], *BLOCKS)
        assert pack == packed()
    deep = TensorShape(1, 7, 4, 12)
    nodes = (
        Node("x", NodeKind.INPUT, deep),
        Node("op", NodeKind.OP, TensorShape(1, 1, 4, 12), op=OpSpec("reduce", reduce_dim="z", reduce_type="max")),
    )
    graph = BudaGraph("deep", nodes, (Edge("x", "op"),))
    _, math, _ = threads(graph, graph.node("op"), model(graph.node("op").spec, block))
    inner = over([{"reduce_max": {"tiles": 8}}], (7, "along z"))
    assert math == over([{"acquire_dst": 8}, *inner, {"commit_dst": 8}], *BLOCKS)
    # A block that is longer than what is reduced is taken once.
    long = BlockShape(5, 1, 1, UBlock(16, 2))
    graph = graphs.reduction(12, 8, "r")
    unpack, _, _ = threads(graph, graph.node("op"), model(graph.node("op").spec, long))
    assert total(unpack, "wait", "input_0") == 5 * 2 * 3 * 32


def test_a_gather_takes_the_strips_of_its_busiest_cores() -> None:
    graph = graphs.one_tap_convolution()
    node = graph.node("gather")
    deep = BlockShape(1, 4, 2, UBlock(2, 2))
    block = BlockShape(1, 4, 2, UBlock(2, 2))
    chosen = model(node.spec, block, deep, block=block)
    share = node.spec.pattern.share(1, 1, False, 2, 2)
    assert (share.nz_strips, share.nz_ublocks) == (4, 4)  # the diagonal of 8x8 tiles, in blocks of 2x2
    unpack, math, _ = threads(graph, node, chosen)
    row = {"buffer": "input_1", "tiles": 2 * 2 * 2}
    assert unpack == over(
        [
            {"read_index": {"buffer": "input_2"}},
            {"wait": row},
            {"unpack_ab": {"SrcB": "tile named by the index", "SrcA": 8}},
            {"pop": row},
        ],
        (4, "strips (busiest row of cores)"),
    )
    what = "blocks that are not zero (busiest row of cores)"
    assert math == over([{"mvmul": {"tiles": 4, "phases": 2}}], (4, what))


def chain(*ops: tuple[str, str, str], relu: str = "") -> BudaGraph:
    """Ops (name, kind, operands) over x and y, with the last one as output."""
    shape = TensorShape(1, 1, 4, 12)
    column = (Tm("tile_broadcast", dim="c"), Tm("broadcast", 12, "c"))
    nodes = [Node("x", NodeKind.INPUT, shape), Node("y", NodeKind.INPUT, shape)]
    nodes.append(Node("v", NodeKind.PARAMETER, TensorShape(1, 1, 4, 1)))
    edges = []
    for name, kind, operands in ops:
        nodes.append(Node(name, NodeKind.OP, shape, op=OpSpec(kind, relu=name in relu.split())))
        edges += [Edge(o, name, i, column if o == "v" else ()) for i, o in enumerate(operands.split())]
    nodes.append(Node("out", NodeKind.OUTPUT, shape))
    return fuse_ops(BudaGraph("chain", tuple(nodes), (*edges, Edge(ops[-1][0], "out"))), "wormhole_b0")


def test_a_fused_op_keeps_in_dst_what_the_next_step_reads() -> None:
    """a = x + v; b = y - a from Dst, second; c = tanh(x) waits in a buffer for d = c * b."""
    graph = chain(
        ("a", "add", "x v"), ("b", "subtract", "y a"), ("c", "tanh", "x"), ("d", "multiply", "b c"), relu="b d"
    )
    (node,) = graph.ops
    unpack, math, pack = threads(graph, node, model(node.spec, BLOCK, BLOCK))

    def take(buffer: str, to: str, **more: Any) -> dict[str, Any]:
        return {"unpack": {"buffer": buffer, "to": to, "tiles": 8, **more}}

    assert unpack == over(
        [
            *({"wait": {"buffer": f"input_{i}", "tiles": 8}} for i in range(4)),
            take("input_0", "SrcA"),
            take("input_1", "SrcB", broadcast=["c"]),
            take("input_2", "SrcA"),
            take("input_3", "SrcA"),
            take("intermed0", "SrcA"),
            {"pop": {"buffer": "intermed0", "tiles": 8}},
            *({"pop": {"buffer": f"input_{i}", "tiles": 8}} for i in range(4)),
        ],
        *BLOCKS,
    )
    exact = {"tiles": 8, "approximate": False}
    acquire, commit = {"acquire_dst": 8}, {"commit_dst": 8}
    assert math == over(
        [
            acquire,
            {"add": exact},
            {"move_dst": {"to": "SrcB", "tiles": 8}},
            {"subtract": exact},
            commit,
            acquire,
            {"tanh": exact},
            {"move_dst": {"to": "SrcB", "tiles": 8}},
            {"multiply": exact},
            commit,
        ],
        *BLOCKS,
    )
    between = [
        {"wait_dst": 8},
        {"reserve": {"buffer": "intermed0", "tiles": 8}},
        {"pack_tiles": {"tiles": 8, "df": "Bfp8_b", "relu": True}},
        {"push": {"buffer": "intermed0", "tiles": 8}},
        {"release_dst": 8},
    ]
    assert pack == packed("Float16_b", *between, relu=True)
    graph = chain(("a", "add", "x y"), ("b", "tanh", "a"))
    (node,) = graph.ops
    _, math, pack = threads(graph, node, model(node.spec, BLOCK, BLOCK))
    steps = [acquire, {"add": exact}, {"move_dst": {"to": "SrcA", "tiles": 8}}, {"tanh": exact}, commit]
    assert math == over(steps, *BLOCKS)
    assert pack == packed()


def test_what_a_kernel_is_compiled_for() -> None:
    graph = graphs.matmul(4, 12, 12, fmt="Bfp8_b", math_fidelity="HiFi4", intermediate_format="Float16", l1_acc=True)
    node = graph.node("mm")
    deep = model(node.spec, BLOCK, BlockShape(5, 4, 3, UBlock(3, 4)))
    assert kernel_arguments(graph, node, deep) == {
        "op": "mm",
        "type": "matmul",
        "block": {"t": 5, "mblock": [2, 3], "ublock": [2, 4]},
        "block_cnt": 4,
        "u_kt": 3,
        "ublock_order": "r",
        "in_df": ["Bfp8_b", "Bfp8_b"],
        "out_df": "Bfp8_b",
        "intermed_df": "Float16",
        "acc_df": "Float16_b",
        "math_fidelity": "HiFi4",
        "phases": 4,
        "relu": False,
        "approximate": False,
        "l1_acc": True,
        "gradient": False,
    }
    graph = chain(("a", "add", "x y"), ("b", "tanh", "a"))
    (node,) = graph.ops
    arguments = kernel_arguments(graph, node, model(node.spec, BLOCK, BLOCK))
    assert (arguments["intermed_df"], arguments["block_cnt"], arguments["intermediates"]) == ("Float16_b", 1, 0)
    assert arguments["steps"] == [
        {"step": "add.0", "inputs": ["input0", "input1"], "output": "dest"},
        {"step": "tanh.1", "inputs": ["dest"], "output": "output"},
    ]


def test_tiles_are_counted_by_step_and_buffer_through_loops() -> None:
    inner = [
        {"wait": {"buffer": "a", "tiles": 2}},
        {"wait": {"buffer": "b", "tiles": 7}},
        {"wait": 5},
        {"pop": {"buffer": "a", "tiles": 11}},
    ]
    steps = over(inner, (3, "x"), (4, "y"))
    steps.append({"wait": {"buffer": "a", "tiles": 1}})
    assert [total(steps, "wait", name) for name in "abc"] == [25, 84, 0]
    assert total(steps, "pop", "a") == 132
