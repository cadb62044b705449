"""What may join a fused op, and where each step's result waits, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from opscope.compiler.buda.fuse_ops import MOST_EDGES, MOST_INTERMEDIATES, MOST_STEPS, fuse_ops
from opscope.compiler.buda.fused import MOST_INPUTS, fused_type, inside, op_named, types_of, without_fused
from opscope.compiler.buda.fused_steps import repeats_last
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape, Tm
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.errors import CompilerInputError

COLUMN, ROW = "v | tile_broadcast(c) | broadcast(c, 2)", "u | tile_broadcast(r) | broadcast(r, 4)"
MOVED = "hslice(2) | hstack(2)"


def graph(*ops: tuple[str, str, str], outputs: str = "", **changed: dict[str, Any]) -> BudaGraph:
    """Ops (name, type, operands) over x, y and z of 4x2 tiles, a column v and a row u; what nobody reads is an output.

    `changed` has settings of ops; `data_format` is that of the node.
    """
    builder = GraphBuilder("test")
    for name, rows, columns in (("x", 4, 2), ("y", 4, 2), ("z", 4, 2), ("v", 4, 1), ("u", 1, 2)):
        builder.source(name, NodeKind.INPUT, TensorShape(1, 1, rows, columns))
    read: set[str] = set()
    for name, kind, operands in ops:
        parts = [Operand.parse(part) for part in operands.split(";")]
        read |= {part.producer for part in parts}
        settings = dict(changed.get(name, {}))
        builder.op(
            name,
            OpSpec(kind, **{k: v for k, v in settings.items() if k != "data_format"}),
            parts,
            settings.get("data_format", ""),
        )
    for name in [name for name, _, _ in ops if name not in read or name in outputs.split()]:
        builder.output(f"{name}.out", Operand(name))
    return builder.graph()


def groups(made: BudaGraph, arch: str = "wormhole_b0") -> list[str]:
    """Of each fused op, the ops of which it was made."""
    fused = fuse_ops(made, arch)
    return ["".join(step.origin for step in op.spec.fused.steps) for op in fused.ops if op.spec.fused is not None]


def steps(*ops: tuple[str, str, str], arch: str = "wormhole_b0", **changed: dict[str, Any]) -> list[str]:
    """The steps of the only fused op, as `name: inputs -> output; what is popped`."""
    (node,) = fuse_ops(graph(*ops, **changed), arch).ops
    assert node.spec.fused is not None
    return [
        f"{step.origin}: {' '.join(step.inputs)} -> {step.output}" + f"; {' '.join(step.pop)}" * bool(step.pop)
        for step in node.spec.fused.steps
    ]


PAIR = (("a", "add", "x; y"), ("b", "tanh", "a"))


def test_limits_are_tt_budas() -> None:
    assert (MOST_INPUTS, MOST_EDGES, MOST_STEPS, MOST_INTERMEDIATES) == (8, 16, 32, 8)


@pytest.mark.parametrize(
    "settings",
    [
        {"data_format": "Float16"},
        {"epoch_type": "backward"},
        {"math_fidelity": "LoFi"},
        {"acc_format": "Float32"},
        {"intermediate_format": "Float32"},
        {"gradient": True},
        {"padding_nop": True},
    ],
    ids=str,
)
def test_steps_share_their_settings(settings: dict[str, Any]) -> None:
    assert groups(graph(*PAIR)) == ["ab"]
    assert groups(graph(*PAIR, b=settings)) == []
    assert groups(graph(*PAIR, a=settings)) == []


def test_partial_results_of_the_results_own_format_are_no_difference() -> None:
    assert groups(graph(*PAIR, b={"intermediate_format": "Float16_b"})) == ["ab"]
    assert groups(graph(*PAIR, a={"relu": True}, b={"approximate": True})) == ["ab"]


ALONE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "two columns": (("a", "add", f"{COLUMN}; {COLUMN}"), ("b", "tanh", "a")),
    "the exponential of a column": (("a", "exp", COLUMN), ("b", "tanh", "z")),
    "a slice behind a repetition": (
        ("a", "add", "x; x | tile_broadcast(c) | hslice(2) | hstack(2)"),
        ("b", "tanh", "a"),
    ),
    "a transpose on the way": (("a", "add", "x; y"), ("b", "add", "a | transpose | transpose; z")),
    "a slice and a stack on the way": (("a", "add", "x; y"), ("b", "add", f"z; a | {MOVED}")),
    "another shape": (("a", "add", "x; y"), ("b", "tanh", "a | broadcast(r, 2)")),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_stays_alone(name: str) -> None:
    assert groups(graph(*ALONE[name])) == []


TOGETHER: dict[str, tuple[tuple[str, str, str], ...]] = {
    "a column second": (("a", "add", f"x; {COLUMN}"), ("b", "tanh", "a")),
    "a row into a difference": (("a", "subtract", f"x; {ROW}"), ("b", "tanh", "a")),
    "a column first of a product": (("a", "multiply", f"{COLUMN}; x"), ("b", "tanh", "a")),
    "a slice before a repetition": (
        ("a", "add", "x; x | hslice(2) | hstack(2) | tile_broadcast(c)"),
        ("b", "tanh", "a"),
    ),
    "the host's data on its side": (("a", "add", "x | transpose | transpose; y"), ("b", "tanh", "a")),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_what_becomes_one(name: str) -> None:
    assert groups(graph(*TOGETHER[name])) == ["ab"]


def test_an_op_that_nobody_reads_is_not_fused() -> None:
    builder = GraphBuilder("unread")
    x = builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 4, 2))
    a = builder.op("a", OpSpec("tanh"), [x])
    builder.op("b", OpSpec("abs"), [a])
    assert groups(builder.graph()) == []
    builder.output("y", builder.op("c", OpSpec("log"), [a]))
    assert groups(builder.graph()) == []  # the result that b reads leaves the group first


@pytest.mark.parametrize(
    ("tms", "last"),
    [
        ("", True),
        ("transpose", True),
        ("broadcast(r, 2)", True),
        ("tile_broadcast(r)", True),
        ("tile_broadcast(r); broadcast(r, 2); tile_broadcast(c)", True),
        ("transpose; tile_broadcast(r)", True),
        ("tile_broadcast(r); transpose", False),
        ("hslice(2); tile_broadcast(c); hstack(2)", False),
    ],
)
def test_only_repetition_follows_a_repetition_within_tiles(tms: str, last: bool) -> None:
    assert repeats_last(tuple(Tm.parse(tm) for tm in tms.split("; ") if tm)) is last


def test_results_stay_in_dst_or_wait_in_buffers() -> None:
    assert steps(*PAIR) == ["a: input0 input1 -> dest", "b: dest -> output"]
    # Of a relu or a maximum the result is packed; a maximum reads no Dst; nothing reads it twice or repeats it.
    waits = ["a: input0 input1 -> intermed0", "b: intermed0 -> output; intermed0"]
    assert steps(*PAIR, a={"relu": True}) == waits
    assert steps(("a", "maximum", "x; y"), PAIR[1]) == waits
    assert steps(PAIR[0], ("b", "maximum", "a; z")) == [waits[0], "b: intermed0 input2 -> output; intermed0"]
    assert steps(PAIR[0], ("b", "multiply", "a; a")) == [waits[0], "b: intermed0 intermed0 -> output; intermed0"]
    assert steps(PAIR[0], ("b", "add", "z; a | tile_broadcast(c)")) == [
        waits[0],
        "b: input2 intermed0 -> output; intermed0",
    ]
    second = PAIR[0], ("b", "subtract", "z; a")
    assert steps(*second) == ["a: input0 input1 -> dest", "b: input2 dest -> output"]
    assert steps(*second, arch="grayskull") == [waits[0], "b: input2 intermed0 -> output; intermed0"]
    assert steps(*PAIR, arch="grayskull") == ["a: input0 input1 -> dest", "b: dest -> output"]


def test_a_result_waits_until_its_last_reader() -> None:
    assert steps(PAIR[0], PAIR[1], ("c", "multiply", "a; b"), ("d", "abs", "c"), ("e", "add", "d; b")) == [
        "a: input0 input1 -> intermed0",
        "b: intermed0 -> intermed1",
        "c: intermed0 intermed1 -> dest; intermed0",
        "d: dest -> dest",
        "e: dest intermed1 -> output; intermed1",
    ]


def test_a_column_is_repeated_by_the_core_and_cut_by_the_network() -> None:
    made = graph(("a", "add", f"{COLUMN}; x | transpose | transpose"), ("b", "tanh", "a"))
    fused = fuse_ops(made, "wormhole_b0")
    (node,) = fused.ops
    assert [(e.producer, [str(tm) for tm in e.tms]) for e in fused.operands(node.name)] == [
        ("x", ["transpose", "transpose"]),
        ("v", ["broadcast(c, 2)"]),
    ]
    assert node.spec.fused is not None
    first, second = node.spec.fused.steps
    assert (first.tms, second.tms) == (((), (Tm("tile_broadcast", dim="c"),)), ())
    assert (first.tms_of(1), second.tms_of(0)) == ((Tm("tile_broadcast", dim="c"),), ())


def test_a_group_that_needs_a_ninth_buffer_stays_apart() -> None:
    """Each result is read by the next op and again by a sum at the end, in the opposite order."""
    for count, expected in ((9, 1), (10, 0)):
        ops = [("t0", "tanh", "x"), *((f"t{i}", "tanh", f"t{i - 1}") for i in range(1, count))]
        ops.append(("s0", "add", f"t{count - 1}; t{count - 2}"))
        ops += [(f"s{i}", "add", f"s{i - 1}; t{count - 2 - i}") for i in range(1, count - 1)]
        fused = [op.spec.fused for op in fuse_ops(graph(*ops), "wormhole_b0").ops if op.spec.fused is not None]
        assert [each.intermediates for each in fused] == [8] * expected


def test_a_fused_op_lists_its_steps_and_is_taken_apart_again() -> None:
    made = graph(*PAIR, ("c", "exp", "b"), ("d", "log", "z"), outputs="b")
    fused = fuse_ops(made, "wormhole_b0")
    node = fused.ops[0]
    assert (fused_type(node.spec), types_of(node.spec)) == ("fused_op (add, tanh)", ("add", "tanh"))
    assert (fused_type(fused.node("c").spec), types_of(fused.node("c").spec)) == ("exp", ("exp",))
    assert [inside(fused, name) for name in "abcd"] == [node.name, node.name, "", ""]
    assert op_named(fused, "c") is fused.node("c")
    with pytest.raises(
        CompilerInputError, match="expected an op of test, got 'a', a step of _fused_op_0; try _fused_op_0"
    ):
        op_named(fused, "a")
    apart = without_fused(fused)
    assert [(op.name, op.spec.type, op.data_format) for op in apart.ops] == [
        ("_fused_op_0.add.0", "add", "Float16_b"),
        ("_fused_op_0", "tanh", "Float16_b"),
        ("c", "exp", "Float16_b"),
        ("d", "log", "Float16_b"),
    ]
    assert {(e.producer, e.consumer, e.operand) for e in apart.edges} == {
        ("x", "_fused_op_0.add.0", 0),
        ("y", "_fused_op_0.add.0", 1),
        ("_fused_op_0.add.0", "_fused_op_0", 0),
        ("_fused_op_0", "c", 0),
        ("z", "d", 0),
        ("_fused_op_0", "b.out", 0),
        ("c", "c.out", 0),
        ("d", "d.out", 0),
    }
    assert without_fused(made) is made


def test_what_stays_in_dst_has_its_format_and_what_waits_that_of_partial_results() -> None:
    ops = (PAIR[0], PAIR[1], ("c", "multiply", "a; b"))
    wide = {"acc_format": "Float32", "intermediate_format": "Float16"}
    for settings, waiting in ((wide, "Float16"), ({"acc_format": "Float32"}, "Float16_b")):
        apart = without_fused(fuse_ops(graph(*ops, a=settings, b=settings, c=settings), "wormhole_b0"))
        formats = [op.data_format for op in apart.ops]
        assert formats == [waiting, "Float32", "Float16_b"]  # a waits for c, b stays in Dst
