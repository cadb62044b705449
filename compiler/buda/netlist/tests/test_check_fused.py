"""The limits of fused ops one by one, from both sides, with each message in full; and what steps are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opscope.compiler.buda.fused import Fused, Step
from opscope.compiler.buda.graph import OpSpec, Tm
from opscope.compiler.buda.netlist.fused import check_fused, fused_of, steps_of
from opscope.compiler.buda.netlist.model import FusedOp, Graph, Netlist, Op, SubOp
from opscope.compiler.errors import CompilerInputError

BLOCKS: dict[str, Any] = {"mblock": (4, 2), "ublock": (1, 2)}


def step(kind: str, inputs: str, output: str, **changes: Any) -> SubOp:
    return SubOp(f"{kind}.0", kind, tuple(inputs.split()), output, **changes)


def netlist(*schedules: list[SubOp], inputs: int = 2, intermediates: int = 1, arch: str = "wormhole_b0") -> Netlist:
    """One op f, which does fused op 7."""
    fused = FusedOp(7, inputs, intermediates, tuple(map(tuple, schedules)))
    names = tuple(f"x{i}" for i in range(inputs))
    op = Op(
        "f",
        "fused_op",
        (0, 0),
        (1, 1),
        names,
        1,
        BLOCKS["mblock"],
        BLOCKS["ublock"],
        ("Float16_b",) * inputs,
        "Float16_b",
        "Float16_b",
        "Float16_b",
        "HiFi3",
        attributes={"fused_op_id": 7},
    )
    return Netlist(arch, {}, (Graph("g", 0, 1, (op,)),), (), fused_ops={7: fused})


ADD, LAST = step("add", "input0 input1", "dest"), step("tanh", "dest", "output")
KEPT, TAKEN = step("add", "input0 input1", "intermed0"), step("tanh", "intermed0", "output")
COLUMN, ROWS = {1: ("tile_broadcast(c)",)}, {0: ("broadcast(r, 2)",)}
WIDE = {"mblock": (3, 4), "ublock": (2, 5)}
ONE = {"mblock": (1, 1), "ublock": (1, 2)}


def product(**changes: Any) -> SubOp:
    return step("matmul", "intermed0 input0", "intermed1", **changes)


END = step("abs", "intermed1", "output")
GOOD = {
    "Dst in between": netlist([ADD, LAST]),
    "a buffer in between": netlist([KEPT, TAKEN]),
    "a buffer and Dst": netlist([KEPT, step("tanh", "intermed0", "dest"), step("add", "input0 dest", "output")]),
    "two schedules": netlist([KEPT], [TAKEN]),
    "Dst first on Grayskull": netlist([ADD, step("add", "dest input0", "output")], arch="grayskull"),
    "blocks of the op": netlist([replace(ADD, **BLOCKS), LAST]),
    "other blocks where tiles are repeated": netlist(
        [replace(ADD, **WIDE, tms={1: ("broadcast(c, 2)",)}), replace(LAST, **WIDE)]
    ),
    "a column second": netlist([replace(ADD, tms=COLUMN), LAST]),
    "both broadcasts": netlist([replace(ADD, tms={1: ("tile_broadcast(c)", "broadcast(c, 2)")}), LAST]),
    "rows from a buffer": netlist([KEPT, replace(TAKEN, tms=ROWS)]),
    "rows into one column of blocks": netlist([KEPT, replace(TAKEN, tms=ROWS, mblock=(4, 1))]),
    "rows into two columns of blocks": netlist(
        [replace(KEPT, mblock=(1, 2), ublock=(1, 2)), replace(TAKEN, tms=ROWS, mblock=(1, 2), ublock=(2, 2))]
    ),
    "a product of repeated columns": netlist(
        [replace(KEPT, **ONE), product(tms={0: ("broadcast(c, 2)",)}, attributes={"m_k": 2, "u_kt": 2}, **ONE), END],
        intermediates=2,
    ),
    "sixteen inputs and eight buffers": netlist([ADD, LAST], inputs=16, intermediates=8),
    "a buffer of one micro block beside a product": netlist(
        [replace(KEPT, **ONE), product(attributes={"m_k": 1, "u_kt": 2}, **ONE)],
        [step("add", "intermed0 intermed1", "output", tms={1: ("broadcast(c, 2)",)})],
        intermediates=2,
    ),
    "a reduction": netlist([KEPT, step("reduce", "intermed0", "output", **WIDE)]),
    "a datacopy": netlist([ADD, step("datacopy", "dest", "output")]),
    "a product of what has no blocks": netlist([KEPT, product(), END], intermediates=2),
    "a product of what has one block": netlist([replace(KEPT, mblock=(3, 4)), product(), END], intermediates=2),
    "a product by its blocks": netlist(
        [replace(KEPT, **WIDE), product(attributes={"m_k": 4, "u_kt": 5}), END], intermediates=2
    ),
    "a product of an input": netlist([step("matmul", "input1 input0", "intermed0"), TAKEN]),
}
AT = "fused_ops.7"
ONE_ROW = (
    AT + ".{}.0.input_0_tms: expected one row of tiles to be repeated from an intermediate, of one column of blocks if "
    "into several rows of them, got "
)
BAD = {
    "seventeen inputs": (netlist([ADD, LAST], inputs=17), f"{AT}.inputs: expected at most 16, got 17"),
    "a buffer that a product ends": (
        netlist([KEPT, product()], [step("add", "intermed0 intermed1", "output")], intermediates=2),
        f"{AT}.add.0: expected intermed0 before matmul.0 ends its schedule, or of one micro block, got mblock [4, 2]",
    ),
    "nine buffers": (netlist([ADD, LAST], intermediates=9), f"{AT}.intermediates: expected at most 8, got 9"),
    "no steps": (netlist(), f"{AT}: expected the last step, and it alone, to make the output, got another"),
    "an output before": (
        netlist([step("abs", "input0", "output"), TAKEN]),
        f"{AT}: expected the last step, and it alone, to make the output, got another",
    ),
    "no output": (netlist([ADD]), f"{AT}: expected the last step, and it alone, to make the output, got another"),
    "an unknown output": (
        netlist([step("abs", "input0", "intermed5"), TAKEN], intermediates=2),
        f"{AT}.abs.0.output: expected dest, output or intermed0, intermed1, got 'intermed5'",
    ),
    "no buffers": (
        netlist([step("abs", "input0", "intermed0"), TAKEN], intermediates=0),
        f"{AT}.abs.0.output: expected dest, output or no intermediate, got 'intermed0'",
    ),
    "Dst at a schedule's end": (
        netlist([step("abs", "input0", "intermed0"), ADD], [TAKEN]),
        f"{AT}: expected Dst to be read within its schedule, got add.0 last",
    ),
    "an unknown kind": (
        netlist([step("wobble", "input0", "output")]),
        f"{AT}.wobble.0.type: expected abs, add, cosine, dequantization, erf, exp, gelu, gelu_derivative, log, lrelu, "
        "matmul, maximum, multiply, nop, power, quantization, reciprocal, reduce, requantization, sigmoid, sine, sqrt, "
        "square, subtract, tanh, tilizer, got 'wobble'",
    ),
    "a buffer before it is filled": (
        netlist([step("abs", "intermed0", "output")]),
        f"{AT}.abs.0: expected input0, input1 or dest, got 'intermed0'",
    ),
    "a buffer that was popped": (
        netlist([KEPT, replace(TAKEN, output="dest", pop=("intermed0",)), step("add", "dest intermed0", "output")]),
        f"{AT}.add.0: expected input0, input1 or dest, got 'intermed0'",
    ),
    "Dst that holds nothing": (
        netlist([KEPT, LAST]),
        f"{AT}.tanh.0: expected Dst to hold the step before and a step that reads Dst, got tanh",
    ),
    "Dst into a maximum": (
        netlist([ADD, step("maximum", "dest input0", "output")]),
        f"{AT}.maximum.0: expected Dst to hold the step before and a step that reads Dst, got maximum",
    ),
    "Dst that nobody reads": (
        netlist([ADD, step("abs", "input0", "output")]),
        f"{AT}.abs.0: expected to read Dst once, behind a step that leaves its result there",
    ),
    "Dst twice": (
        netlist([ADD, step("multiply", "dest dest", "output")]),
        f"{AT}.multiply.0: expected to read Dst once, behind a step that leaves its result there",
    ),
    "Dst second on Grayskull": (
        netlist([ADD, step("add", "input0 dest", "output")], arch="grayskull"),
        f"{AT}.add.0: expected Dst as the first input on grayskull, got input 1",
    ),
    "a column first": (
        netlist([replace(ADD, tms={0: ("tile_broadcast(c)",)}), LAST]),
        f"{AT}.add.0: expected tile_broadcast(c) on input 1 of add, subtract or multiply, got input 0 of add",
    ),
    "a column into a maximum": (
        netlist([step("maximum", "input0 input1", "output", tms=COLUMN)]),
        f"{AT}.maximum.0: expected tile_broadcast(c) on input 1 of add, subtract or multiply, got input 1 of maximum",
    ),
    "a transpose": (
        netlist([replace(ADD, tms={1: ("broadcast(c, 2)", "transpose", "hslice(2)")}), LAST]),
        f"{AT}.add.0: expected broadcasts inside a fused op, got transpose",
    ),
    "a product by a buffer": (
        netlist([KEPT, step("matmul", "input0 intermed0", "intermed1"), END], intermediates=2),
        f"{AT}.matmul.0: expected a matmul by an input into an intermediate, got input 1 from intermed0 and the result "
        "in intermed1",
    ),
    "a product last": (
        netlist([KEPT, replace(product(), output="output")], intermediates=2),
        f"{AT}.matmul.0: expected a matmul by an input into an intermediate, got input 1 from input0 and the result in "
        "output",
    ),
    "a product in other steps": (
        netlist([replace(KEPT, **WIDE), product(attributes={"m_k": 4, "u_kt": 1}), END], intermediates=2),
        f"{AT}.matmul.0.attributes: expected m_k 4 and u_kt 5, the blocks of intermed0, got (4, 1)",
    ),
    "a product of columns repeated in part": (
        netlist(
            [replace(KEPT, **ONE), product(tms={0: ("broadcast(c, 2)",)}, attributes={"m_k": 3, "u_kt": 1}), END],
            intermediates=2,
        ),
        f"{AT}.matmul.0.attributes: expected m_k 1 and u_kt 4, the blocks of intermed0 repeated 2 times, got (3, 1)",
    ),
    "rows from an input": (
        netlist([step("abs", "input0", "output", tms=ROWS)]),
        f"{ONE_ROW.format('abs')}input0 with mblock [1, 1] and ublock [1, 1] into mblock []",
    ),
    "rows of tiles": (
        netlist([replace(KEPT, mblock=(1, 1), ublock=(2, 1)), replace(TAKEN, tms=ROWS, mblock=(1, 1), ublock=(4, 1))]),
        f"{ONE_ROW.format('tanh')}intermed0 with mblock [1, 1] and ublock [2, 1] into mblock [1, 1]",
    ),
    "two columns of blocks into two rows": (
        netlist([replace(KEPT, mblock=(1, 2), ublock=(1, 1)), replace(TAKEN, tms=ROWS, mblock=(2, 2))]),
        f"{ONE_ROW.format('tanh')}intermed0 with mblock [1, 2] and ublock [1, 1] into mblock [2, 2]",
    ),
    "other macro blocks": (
        netlist([replace(ADD, mblock=(4, 3)), LAST]),
        f"{AT}.add.0.mblock: expected [4, 2] as f has, got [4, 3]",
    ),
    "other micro blocks": (
        netlist([ADD, replace(LAST, ublock=(2, 2))]),
        f"{AT}.tanh.0.ublock: expected [1, 2] as f has, got [2, 2]",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_fused_op_that_a_core_can_run_is_accepted(name: str) -> None:
    check_fused(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_fused_op_that_a_core_cannot_run_is_refused(name: str) -> None:
    with pytest.raises(CompilerInputError) as caught:
        check_fused(BAD[name][0])
    assert str(caught.value) == BAD[name][1]


def changed(original: Netlist, **changes: Any) -> Netlist:
    (graph,) = original.graphs
    return replace(original, graphs=(replace(graph, ops=(replace(graph.ops[0], **changes),)),))


def test_an_op_names_a_fused_op_of_as_many_inputs() -> None:
    good = netlist([ADD, LAST])
    with pytest.raises(CompilerInputError, match=r"^f.inputs: expected 2 of a fused op, got 1$"):
        check_fused(changed(good, inputs=("x0",)))
    check_fused(changed(good, type="exp", inputs=("x0",)))  # another op refers to none
    assert fused_of(good, good.ops["f"]) is good.fused_ops[7]
    for number in (8, "7", None):
        bad = changed(good, attributes={"fused_op_id": number})
        with pytest.raises(CompilerInputError) as caught:
            fused_of(bad, bad.ops["f"])
        message = f"f.attributes.fused_op_id: expected one of fused_ops (7), got {number!r}"
        assert str(caught.value) == message
    none = replace(good, fused_ops={})
    with pytest.raises(CompilerInputError, match=r"expected one of fused_ops \(none in the file\), got 7"):
        fused_of(none, none.ops["f"])


SHARED = OpSpec("fused_op", "HiFi2", "Float16", l1_acc=True)


def test_steps_have_their_own_attributes_and_the_ops_settings() -> None:
    first = step(
        "reduce", "input0", "intermed0", attributes={"dim": "c", "type": "max", "elements": [1, 33, 1]}, pop=("input1",)
    )
    second = step("lrelu", "intermed0 input1", "dest", attributes={"slope": 1, "relu_en": True}, tms=COLUMN)
    third = step("datacopy", "dest", "output", attributes={"approximate_mode": True, "vector": "r"})
    whole = netlist([first, second], [third])
    made = steps_of(whole, whole.ops["f"], SHARED)
    specs = [
        replace(SHARED, type="reduce", reduce_dim="c", reduce_type="max"),
        replace(SHARED, type="lrelu", scalar=1.0, relu=True),
        replace(SHARED, type="nop", approximate=True, vector="r"),
    ]
    steps = [
        Step("reduce.0", specs[0], ("input0",), "intermed0", pop=("input1",), elements=(1, 33, 1)),
        Step("lrelu.0", specs[1], ("intermed0", "input1"), "dest", ((), (Tm("tile_broadcast", dim="c"),))),
        Step("datacopy.0", specs[2], ("dest",), "output"),
    ]
    assert made == Fused(2, 1, ((steps[0], steps[1]), (steps[2],)))
    assert type(made.steps[1].spec.scalar) is float


@pytest.mark.parametrize("elements", [3, [1, 2], [1, 2, 3, 4], [1, 2, 0], [1, 2, "3"], (1, 2, 3), [1, 1, 1]])
def test_elements_are_three_whole_numbers(elements: Any) -> None:
    whole = netlist([step("abs", "input0", "output", attributes={"elements": elements})])
    if elements == [1, 1, 1]:
        assert steps_of(whole, whole.ops["f"], SHARED).steps[0].elements == (1, 1, 1)
        return
    with pytest.raises(CompilerInputError) as caught:
        steps_of(whole, whole.ops["f"], SHARED)
    assert str(caught.value) == f"abs.0.attributes.elements: expected three whole numbers, got {elements!r}"
