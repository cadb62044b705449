"""Forks and joins of a plan: who starves without buffers, what is put in, and that no bit changes."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import Any

import numpy as np
import pytest

from opscope.compiler.buda import buffering, pipeline, planner
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.buda.pipeline import flow
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_answer import answer
from opscope.compiler.buda.plan_report import plan_lines
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import run


def branches(rt: int, ct: int) -> BudaGraph:
    """The sum of `fork`, the short branch, and of its product with weights, the long one."""
    builder = GraphBuilder("branches")
    x = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, rt, ct))
    w = builder.source("w", NodeKind.PARAMETER, TensorShape(1, 1, rt, rt))
    fork = builder.op("fork", OpSpec("exp"), [x])
    long = builder.op("long", OpSpec("matmul"), [w, fork])
    builder.output("y", builder.op("join", OpSpec("add"), [fork, long]))
    return builder.graph()


SIZES = LegalizerOptions(
    overrides={
        "fork": OpOverride(Grid(2, 1), "r", (7, 1)),
        "long": OpOverride(Grid(7, 1), "n"),
        "join": OpOverride(Grid(7, 1), "n"),
    }
)
"""The fork is cut into seven pieces; the product needs all of them before it puts out anything."""


def without(monkeypatch: pytest.MonkeyPatch, *args: Any) -> BudaPlan:
    with monkeypatch.context() as patch:
        patch.setattr(planner, "buffered", lambda made, options: made)
        return plan(*args)


def bits(planned: BudaPlan, **options: Any) -> np.ndarray:
    rng = np.random.default_rng(5)
    program = to_binary(planned, load_board("e150"))
    shapes = {node.name: node.extent for node in planned.graph.nodes}
    queues = {name: rng.standard_normal(shapes[name]).astype(np.float32) / 8 for name in program.graph.sources}
    return run(program, queues, **options)[0]


@pytest.mark.parametrize(
    ("size", "grid", "kind", "name"),
    [
        ((14, 2), None, "buffer", "fork"),
        # 336 tiles of 2,080 bytes are more than the L1 of each of the fork's two cores.
        ((42, 16), None, "nop", "buffer_0_fork_join"),
        ((42, 16), Grid(9, 2), "queue", "e2e_fork_0"),
    ],
)
def test_the_short_branch_holds_what_the_long_one_takes_in(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], grid: Grid | None, kind: str, name: str
) -> None:
    budget = budget_of("e150")
    budget = replace(budget, grid=grid or budget.grid)
    arguments = (branches(*size), budget, "MinimizeGrid", SIZES)
    bare = without(monkeypatch, *arguments)
    assert bare.flow_cycles(bare.epochs[0]) == inf
    planned = plan(*arguments)
    assert [(note.kind, note.name) for note in planned.buffering] == [(kind, name)]
    assert len(planned.epochs) == 1
    assert planned.cycles == bare.cycles
    passed = planned.flow_cycles(planned.epochs[0])
    serial = sum(choice.model.cycles for choice in planned.choices.values())
    assert planned.cycles < passed <= serial
    assert any(f"buffering: {kind} {name} on fork -> join" in line for line in plan_lines(planned))
    assert answer(planned).buffering[0].name == name
    assert (name in planned.choices) == (kind != "queue")


def test_a_buffer_is_faster_than_dram_and_no_bit_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = (branches(14, 2), budget_of("e150"), "MinimizeGrid", SIZES)
    bare, planned = without(monkeypatch, *arguments), plan(*arguments)
    short = next(edge for edge in bare.graph.edges if (edge.producer, edge.consumer) == ("fork", "join"))
    cut = replace(bare, cuts=(*bare.cuts, short))
    assert planned.flow_cycles(planned.epochs[0]) <= cut.flow_cycles(cut.epochs[0])
    expected = bits(bare)
    np.testing.assert_array_equal(bits(planned, per_core=True), expected)
    np.testing.assert_array_equal(bits(cut), expected)


def test_epochs_that_are_alike_get_the_same_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three equal layers, an epoch each: the second and third take over what the first was given."""
    builder = GraphBuilder("layers")
    value = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 42, 16))
    w = builder.source("w", NodeKind.PARAMETER, TensorShape(1, 1, 42, 42))
    overrides = {}
    for i in range(3):
        fork = builder.op(f"fork{i}", OpSpec("exp"), [value])
        long = builder.op(f"long{i}", OpSpec("matmul"), [w, fork])
        value = builder.op(f"join{i}", OpSpec("add"), [fork, long])
        overrides |= {f"{name}{i}": override for name, override in SIZES.overrides.items()}
    builder.output("y", value)
    arguments = (builder.graph(), budget_of("e150"), "MinimizeGrid", LegalizerOptions(overrides=overrides))
    breaks = PlacerOptions(epoch_breaks=("fork1", "fork2"))
    planned = plan(*arguments, placer=breaks)
    assert [note.name for note in planned.buffering] == [f"buffer_{i}_fork{i}_join{i}" for i in range(3)]
    assert len({planned.flow_cycles(epoch) for epoch in planned.epochs[1:]}) == 1
    monkeypatch.setattr(buffering._State, "likeness", lambda self, number: number)
    assert plan(*arguments, placer=breaks) == planned


def against_the_grain() -> BudaGraph:
    """`first` is cut by columns, `second` by rows: no two of their models stream along the edge."""
    builder = GraphBuilder("grain")
    x = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 14, 4))
    w = builder.source("w", NodeKind.PARAMETER, TensorShape(1, 1, 4, 4))
    first = builder.op("first", OpSpec("exp"), [x])
    second = builder.op("second", OpSpec("exp"), [first])
    builder.output("y", builder.op("last", OpSpec("matmul"), [second, w]))
    return builder.graph()


def test_a_nop_streams_where_two_ops_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    options = LegalizerOptions(
        overrides={"first": OpOverride(None, "c", (1, 4)), "second": OpOverride(None, "r", (7, 1))}
    )
    arguments = (against_the_grain(), budget_of("e150"), "MinimizeGrid", options)
    bare, planned = without(monkeypatch, *arguments), plan(*arguments)
    assert [(edge.producer, edge.consumer) for edge in bare.cuts] == [("first", "second")]
    assert planned.cuts == ()
    assert [(note.kind, note.name) for note in planned.buffering] == [("nop", "buffer_0_first_second")]
    assert planned.flow_cycles(planned.epochs[0]) < bare.flow_cycles(bare.epochs[0])
    assert planned.cycles == bare.cycles
    np.testing.assert_array_equal(bits(planned, per_core=True), bits(bare))


def test_an_op_has_at_most_eight_readers() -> None:
    builder = GraphBuilder("wide")
    x = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 2, 2))
    fork = builder.op("fork", OpSpec("exp"), [x])
    for i in range(20):
        builder.output(f"y{i}", builder.op(f"reader{i}", OpSpec("sqrt"), [Operand(fork.producer)]))
    graph = builder.graph()
    split = buffering.split_forks(graph)
    readers = {node.name: len(split.users(node.name)) for node in split.ops}
    assert max(readers.values()) <= buffering.MOST_FORKS
    assert {name for name in readers if "nop" in name} == {"fork_nop_0_fork", "fork_nop_1_fork"}
    assert buffering.split_forks(split) == split
    planned = plan(graph, budget_of("e150"))
    assert {"fork_nop_0_fork", "fork_nop_1_fork"} < set(planned.choices)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "split_forks", lambda whole: whole)
        plain = plan(graph, budget_of("e150"))
    program, whole = (to_binary(each, load_board("e150")) for each in (planned, plain))
    queues = {"x": np.random.default_rng(0).random((1, 64, 64), np.float32)}
    for ours, theirs in zip(run(program, queues), run(whole, queues), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_chain_needs_no_buffers() -> None:
    builder = GraphBuilder("chain")
    value = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 14, 2))
    for i in range(5):
        value = builder.op(f"e{i}", OpSpec("exp"), [value])
    builder.output("y", value)
    planned = plan(builder.graph(), budget_of("e150"))
    assert planned.buffering == ()
    passed = planned.flow_cycles(planned.epochs[0])
    assert isfinite(passed)
    assert passed >= planned.cycles


def test_a_chain_takes_its_slowest_op_and_a_step_of_each_other() -> None:
    """In closed form: n steps of the slowest, one of each other; behind a cut an op waits for all of its operand."""
    builder = GraphBuilder("chain")
    value = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 14, 2))
    names = ("sqrt", "nop", "exp", "gelu")
    for name in names:
        value = builder.op(name, OpSpec(name), [value])
    builder.output("y", value)
    planned = plan(builder.graph(), budget_of("e150"))
    graph, models = planned.graph, {name: planned.choices[name].model for name in names}
    cycles = [models[name].cycles for name in names]
    assert len(set(cycles)) > 1
    edges = [edge for name in names for edge in graph.operands(name)][1:]
    whole = dict.fromkeys(edges, 2.0)
    steps = pipeline.STEPS
    free = flow(graph, models, names, room=whole)
    assert (free.stuck, free.full) == ((), ())
    for i, name in enumerate(names):
        before = cycles[: i + 1]
        assert free.ends[name] == pytest.approx((sum(before) + (steps - 1) * max(before)) / steps)
    # Cut apart, one op runs after the other.
    cut = flow(graph, models, names, edges)
    assert [cut.ends[name] for name in names] == pytest.approx([sum(cycles[: i + 1]) for i in range(len(names))])
    # With room for two steps, the op before the slowest one ends two steps before it, and one of its own later.
    tight = flow(graph, models, names, room=dict.fromkeys(edges, 0.0))
    assert tight.cycles == pytest.approx(free.cycles)
    at = cycles.index(max(cycles))
    assert at > 0
    left = tight.ends[names[at]] - tight.ends[names[at - 1]]
    assert left == pytest.approx((2 * cycles[at] - cycles[at - 1]) / steps)
    assert flow(graph, models, ()).cycles == 0
