"""Fused ops: which ops become one, in which order their steps come, and that results stay the same, bit for bit."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler.buda.balancer.buffers import intermediate_buffers
from opscope.compiler.buda.balancer.cycles.estimate import estimate
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Cut, Grid, StreamFactor, UBlock
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.fuse_ops import MOST_INTERMEDIATES, MOST_STEPS, fuse_ops
from opscope.compiler.buda.fused import MOST_INPUTS, op_named, without_fused
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.buda.netlist.check import check
from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary as netlist_binary
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import PlannedProgram, to_binary
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import lowered_function, run
from opscope.simulator.api import Device


def graph(*ops: tuple[str, str, str], outputs: str = "", columns: int = 2) -> BudaGraph:
    """Ops (name, type, operands) over inputs x, y, z and a column v; what nobody reads is an output."""
    builder = GraphBuilder("test")
    for name in "xyz":
        builder.source(name, NodeKind.INPUT, TensorShape(1, 1, 4, columns))
    builder.source("v", NodeKind.PARAMETER, TensorShape(1, 1, 4, 1), elements=(1, 128, 1))
    read: set[str] = set()
    for name, kind, operands in ops:
        parts = [Operand.parse(part) for part in operands.split(";")]
        read |= {part.producer for part in parts}
        builder.op(name, OpSpec(kind, reduce_dim="c" if kind == "reduce" else ""), parts)
    for name in [name for name, _, _ in ops if name not in read or name in outputs.split()]:
        builder.output(f"{name}.out", Operand(name))
    return builder.graph()


def fused(buda_graph: BudaGraph) -> list[list[str]]:
    """Of each fused op, the ops of which it was made."""
    return [[step.origin for step in node.spec.fused.steps] for node in buda_graph.ops if node.spec.fused is not None]


CHAIN = (("a", "add", "x; y"), ("b", "tanh", "a"), ("c", "multiply", "b; z"))
BLOCKS = BlockShape(1, 2, 3, UBlock(2, 2))
COLUMN = "v | tile_broadcast(c) | broadcast(c, 2)"


def test_a_chain_is_one_op_whose_results_stay_in_dst() -> None:
    fused_graph = fuse_ops(graph(*CHAIN), "wormhole_b0")
    (op,) = fused_graph.ops
    assert op.spec.fused is not None
    assert [(s.name, s.inputs, s.output) for s in op.spec.fused.steps] == [
        ("add.0", ("input0", "input1"), "dest"),
        ("tanh.1", ("dest",), "dest"),
        ("multiply.2", ("dest", "input2"), "output"),
    ]
    assert [edge.producer for edge in fused_graph.operands(op.name)] == ["x", "y", "z"]
    assert op.spec.fused.intermediates == 0


GROUPS: dict[str, tuple[BudaGraph, list[list[str]]]] = {
    "a result that others read ends it": (graph(*CHAIN, outputs="b"), [["a", "b"]]),
    "a fork inside": (graph(("a", "add", "x; y"), ("b", "tanh", "a"), ("c", "multiply", "a; b")), [["a", "b", "c"]]),
    "a reduction is none": (
        graph(("a", "add", "x; y"), ("b", "exp", "a"), ("r", "reduce", "b"), ("s", "sqrt", "r"), ("t", "log", "s")),
        [["a", "b"], ["s", "t"]],
    ),
    "nothing below an exponential": (graph(("a", "add", "x; y"), ("b", "exp", "a"), ("c", "sqrt", "b")), [["a", "b"]]),
    "a transpose ends it": (
        graph(("a", "add", "x; y"), ("b", "tanh", "a"), ("c", "exp", "b | transpose"), ("d", "log", "z")),
        [["a", "b"]],
    ),
    "a column comes second": (graph(("a", "add", f"{COLUMN}; x"), ("b", "tanh", "a")), [["a", "b"]]),
    "nothing is subtracted from a column": (graph(("a", "subtract", f"{COLUMN}; x"), ("b", "tanh", "a")), []),
    "what twenty read stays alone": (
        graph(("a", "add", "x; y"), ("b", "tanh", "a"), *((f"r{i}", "reduce", "b") for i in range(20))),
        [],
    ),
    "a maximum takes no column": (graph(("a", "maximum", f"x; {COLUMN}"), ("b", "tanh", "a")), []),
}


def row(count: int, readers: int = 1) -> BudaGraph:
    """That many additions, each of another z to the last result; `readers` reductions read the last one."""
    ops = [("n0", "add", "x; z"), *((f"n{i}", "add", f"n{i - 1}; z") for i in range(1, count))]
    return graph(*ops, *((f"r{i}", "reduce", f"n{count - 1}") for i in range(readers)))


def names(count: int) -> list[str]:
    return [f"n{i}" for i in range(count)]


LIMITS: dict[str, tuple[BudaGraph, list[list[str]]]] = {
    "eight inputs": (row(7), [names(7)]),
    "nine inputs": (row(8), [names(7)]),
    "sixteen edges": (row(7, readers=8), [names(7)]),
    "seventeen edges": (row(7, readers=9), [names(6)]),
    "32 steps": (graph(("n0", "tanh", "x"), *((f"n{i}", "tanh", f"n{i - 1}") for i in range(1, 32))), [names(32)]),
    "33 steps": (graph(("n0", "tanh", "x"), *((f"n{i}", "tanh", f"n{i - 1}") for i in range(1, 33))), [names(32)]),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_group_grows_up_to_tt_budas_limits(name: str) -> None:
    source, expected = LIMITS[name]
    assert fused(fuse_ops(source, "wormhole_b0")) == expected


@pytest.mark.parametrize("name", GROUPS)
def test_what_becomes_one_op(name: str) -> None:
    source, expected = GROUPS[name]
    assert fused(fuse_ops(source, "wormhole_b0")) == expected


def test_what_breaks_an_epoch_stays_alone() -> None:
    assert fused(fuse_ops(graph(*CHAIN), "wormhole_b0", {"b"})) == []
    config = Configuration()
    config.set_epoch_break("c")
    buda_plan = config.plan(graph(*CHAIN), "wormhole_b0")
    assert fused(buda_plan.graph) == [["a", "b"]]
    assert [[p.op.name for p in epoch.placements] for epoch in buda_plan.epochs] == [["_fused_op_0"], ["c"]]


def test_the_option_turns_it_off() -> None:
    config = Configuration()
    config.set_configuration_options(enable_auto_fusing=False)
    assert [node.name for node in config.applied(graph(*CHAIN), "grayskull").ops] == ["a", "b", "c"]


def test_grayskull_reads_dst_only_first_and_a_maximum_never_does() -> None:
    source = graph(("a", "add", "x; y"), ("b", "subtract", "z; a"), ("c", "maximum", "b; z"), ("d", "tanh", "c"))
    steps = {arch: fuse_ops(source, arch).ops[0].spec.fused.steps for arch in ("grayskull", "wormhole_b0")}
    assert steps["grayskull"][1].inputs == ("input2", "intermed0")
    assert steps["wormhole_b0"][1].inputs == ("input2", "dest")
    for group in steps.values():
        assert "dest" not in (*group[2].inputs, *group[3].inputs)
        assert group[-1].pop == (group[2].output,)


def test_a_buffer_is_used_again_when_its_readers_are_through() -> None:
    source = graph(
        ("a", "tanh", "x"), ("b", "tanh", "y"), ("c", "multiply", "a; b"), ("d", "tanh", "z"), ("e", "add", "c; d")
    )
    fused_op = fuse_ops(source, "wormhole_b0").ops[0].spec.fused
    assert fused_op is not None
    assert [(s.inputs, s.pop, s.output) for s in fused_op.steps] == [
        (("input0",), (), "intermed0"),
        (("input1",), (), "dest"),
        (("intermed0", "dest"), ("intermed0",), "intermed0"),
        (("input2",), (), "dest"),
        (("intermed0", "dest"), ("intermed0",), "output"),
    ]
    assert fused_op.intermediates == 1
    node, output = fuse_ops(source, "wormhole_b0").ops[0], BufferModel.whole(BLOCKS, 2, "Float16_b")
    (buffer,) = intermediate_buffers(node, output)
    assert (buffer.held, buffer.factor, buffer.data_format) == (4, 1, "Float16_b")  # one micro block


def test_cycles_are_the_sum_of_the_steps_less_what_dst_saves() -> None:
    (op,) = fuse_ops(graph(*CHAIN), "wormhole_b0").ops
    block = BlockShape(1, 2, 1, UBlock(2, 2))
    alone = {
        step.spec.type: estimate("wormhole_b0", Cut(step_node, Grid(1, 1), StreamFactor(), block), ())
        for step, step_node in zip(
            op.spec.fused.steps, without_fused(fuse_ops(graph(*CHAIN), "wormhole_b0")).ops, strict=True
        )
    }
    cycles = estimate("wormhole_b0", Cut(op, Grid(1, 1), StreamFactor(), block), ())
    assert cycles == int(alone["add"] * 0.5 + alone["tanh"] + alone["multiply"] * 0.5)


def test_a_step_is_asked_for_by_name() -> None:
    fused_graph = fuse_ops(graph(*CHAIN), "grayskull")
    with pytest.raises(CompilerInputError, match="'b', a step of _fused_op_0; try _fused_op_0"):
        op_named(fused_graph, "b")
    assert op_named(fused_graph, "_fused_op_0").spec.type == "fused_op"


@pytest.mark.parametrize(("every", "forks"), [(1, 0), (2, 1), (4, 7), (7, 7), (15, 7)])
def test_limits_hold_on_tt_budas_own_cases(every: int, forks: int) -> None:
    """32 additions in a row, results of some of which are read elsewhere too (tt-buda: tests/test_fuse_ops.cpp)."""
    builder = GraphBuilder("limits")
    value = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 2, 2))
    for i in range(32):
        source = builder.source(f"x{i}", NodeKind.INPUT, TensorShape(1, 1, 2, 2))
        value = builder.op(f"n{i}", OpSpec("add"), [value, source])
        for f in range(forks if i % every == 0 else 0):
            other = builder.source(f"f{i}_{f}", NodeKind.INPUT, TensorShape(1, 1, 2, 2))
            builder.output(f"o{i}_{f}", builder.op(f"a{i}_{f}", OpSpec("add"), [value, other]))
    builder.output("out", value)
    fused_graph = fuse_ops(builder.graph(), "grayskull")
    assert fused(fused_graph)
    for node in fused_graph.ops:
        if node.spec.fused is not None:
            assert len(fused_graph.operands(node.name)) <= MOST_INPUTS
            assert len(fused_graph.operands(node.name)) + len(fused_graph.users(node.name)) <= 17


def test_equal_fused_ops_are_one_entry_of_the_netlist() -> None:
    twins = graph(("a", "add", "x; y"), ("b", "tanh", "a"), ("c", "add", "y; z"), ("d", "tanh", "c"))
    other = graph(("a", "add", "x; y"), ("b", "tanh", "a"), ("c", "add", "y; z"), ("d", "sqrt", "c"))
    for source, entries in ((twins, 1), (other, 2)):
        netlist = netlist_of(*planned(source, "n150", "MinimizeGrid"))
        assert len([op for op in netlist.ops.values() if op.type == "fused_op"]) == 2
        assert len(netlist.fused_ops) == entries


def any_graph(seed: int) -> BudaGraph:
    """Elementwise ops between earlier results, some of columns, in which any may be read any number of times."""
    rng = random.Random(seed)
    names, ops = list("xyz"), []
    for i in range(rng.randint(6, 40)):
        operands = rng.choices(names[-8:], k=2)
        kind = rng.choice(("add", "subtract", "multiply", "maximum", "tanh", "sigmoid", "abs", "exp"))
        if kind in ("tanh", "sigmoid", "abs", "exp"):
            operands = operands[:1]
        elif rng.random() < 0.2:
            operands[rng.randint(0, 1)] = COLUMN
        ops.append((f"n{i}", kind, "; ".join(operands)))
        names.append(f"n{i}")
    return graph(*ops)


def values(buda_graph: BudaGraph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    sources = [n for n in buda_graph.nodes if n.kind in (NodeKind.INPUT, NodeKind.PARAMETER)]
    return {n.name: (rng.standard_normal(n.extent) / 4).astype(np.float32) for n in sources}


def planned(buda_graph: BudaGraph, board: str, policy: str, fusing: bool = True) -> tuple[BudaPlan, PlannedProgram]:
    config = Configuration()
    # With all phases a product's operands may be turned round without another bit.
    config.set_configuration_options(balancer_policy=policy, enable_auto_fusing=fusing, math_fidelity="HiFi4")
    plan = config.plan(buda_graph, board)
    return plan, to_binary(plan, load_board(board))


@pytest.mark.parametrize("seed", [1, 2, pytest.param(0, marks=pytest.mark.slow)])  # quick: others of either board
def test_any_graph_keeps_its_bits_placed_unplaced_core_by_core_and_from_its_netlist(seed: int) -> None:
    source, board = any_graph(seed), ("e150", "n150")[seed % 2]
    results = values(source)
    _, alone = planned(source, board, "MinimizeGrid", fusing=False)
    plan, program = planned(source, board, ("MinimizeGrid", "Random", "NLP")[seed % 3])
    assert fused(plan.graph)
    for node in plan.graph.ops:
        if node.spec.fused is not None:
            assert node.spec.fused.inputs <= MOST_INPUTS
            assert node.spec.fused.intermediates <= MOST_INTERMEDIATES
            assert len(node.spec.fused.steps) <= MOST_STEPS
    expected = run(alone, results, placed=False)
    for outputs in (run(program, results, placed=False), run(program, results, per_core=True)):
        for one, other in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    text = to_yaml(netlist_of(plan, program))
    again = parse(text, "test")
    check(again)
    assert to_yaml(again) == text
    rebuilt = netlist_binary(again, board)
    operations = Device(board).load(binary.write(rebuilt.binary)).placed
    for op, other in zip(program.binary.plan.ops, rebuilt.binary.plan.ops, strict=True):
        spec = plan.graph.node(op.name).spec
        held_in_l1 = [b for b in op.buffers if b.role == "intermediate"]
        # The same cores do every step, and have room for what steps leave to each other.
        assert len(op.steps) == len(other.steps) == (len(spec.fused.steps) - 1 if spec.fused else 0)
        assert {operations[one].name for one in (*other.steps, other.operation)} == {op.name}
        assert len(held_in_l1) == (spec.fused.intermediates if spec.fused else 0)
        assert op.buffers == other.buffers
    for one, other in zip(run(rebuilt, results, per_core=True), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def norm(x, w, g, b):
    """A product, a layer norm and tanh-approximated gelu."""
    y = x @ w
    y = y - y.mean(-1, keepdims=True)
    return jax.nn.gelu(y / jnp.sqrt((y * y).mean(-1, keepdims=True) + 1e-5) * g + b)


def test_a_layer_norm_is_fused_and_right() -> None:
    layer = lowered_function(norm, (70, 96), (96, 100), (100,), (100,))
    plan, program = planned(layer.graph, "n150", "NLP")
    assert len(fused(plan.graph)) >= 2
    (alone,), (by_core,) = run(program, layer.queues, placed=False), run(program, layer.queues, per_core=True)
    np.testing.assert_array_equal(alone, by_core)
    golden = layer.golden[0]
    assert np.corrcoef(np.ravel(by_core), np.ravel(golden))[0, 1] > 0.999
    assert binary.read(binary.write(program.binary)) == program.binary
