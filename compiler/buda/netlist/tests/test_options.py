"""What a netlist of the real back end asks of an op besides, against the golden of `test_config`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opscope.compiler.buda.graph import TensorShape
from opscope.compiler.buda.netlist.model import Graph, Netlist, Op, Queue
from opscope.compiler.buda.netlist.options import check_operands, options_of, spliced_tiles
from opscope.compiler.buda.op_options import OpOptions
from opscope.compiler.buda.test_config.golden_ops import splice
from opscope.compiler.errors import CompilerInputError


def op(kind: str, inputs: int = 2, **more: Any) -> Op:
    row: dict[str, Any] = {
        "grid": (1, 1),
        "t": 1,
        "mblock": (1, 1),
        "ublock": (1, 1),
        "order": "r",
        "tile": (32, 32),
        "tms": {},
        **more,
    }
    attributes = row.get("attributes", {})
    return Op(
        "f",
        kind,
        (0, 0),
        row["grid"],
        tuple("xyzw"[:inputs]),
        row["t"],
        row["mblock"],
        row["ublock"],
        ("Float16_b",) * inputs,
        "Float16_b",
        "Float16_b",
        "Float16_b",
        "HiFi4",
        2,
        row["order"],
        (),
        False,
        False,
        row["tms"],
        attributes,
        row["tile"],
    )


def numbered(shape: TensorShape, base: int) -> np.ndarray:
    tiles = np.arange(base, base + shape.tiles, dtype=np.float64).reshape(shape.z, shape.rt, shape.ct)
    return np.kron(tiles, np.ones((1, 32, 32)))


SPLICES: dict[str, tuple[Op, tuple[TensorShape, ...]]] = {
    "by rows": (
        op("splice", grid=(2, 1), mblock=(2, 3), ublock=(1, 2), attributes={"input0": [0, 1, 2], "input1": [1, 1, 1]}),
        (TensorShape(1, 1, 4, 6), TensorShape(1, 1, 4, 6)),
    ),
    "by columns": (
        op(
            "splice",
            t=2,
            grid=(1, 2),
            mblock=(3, 2),
            ublock=(2, 1),
            order="c",
            attributes={"input0": [1, 2, 2], "input1": [0, 1, 2]},
        ),
        (TensorShape(1, 2, 6, 4), TensorShape(1, 2, 8, 2)),
    ),
    "matrices": (
        op(
            "splice",
            t=4,
            grid=(2, 1),
            mblock=(1, 3),
            ublock=(2, 1),
            attributes={"granularity": "t", "input0": [0, 1, 2], "input1": [1, 1, 1]},
        ),
        (TensorShape(1, 4, 4, 3), TensorShape(1, 4, 4, 3)),
    ),
}


@pytest.mark.parametrize("name", SPLICES)
def test_the_tiles_of_a_splice_are_those_of_the_golden(name: str) -> None:
    made, shapes = SPLICES[name]
    values = [numbered(shape, 1000 * number) for number, shape in enumerate(shapes)]
    row = {
        "t": made.t,
        "grid_size": made.grid_size,
        "mblock": made.mblock,
        "ublock": made.ublock,
        "ublock_order": made.ublock_order,
    }
    golden = splice(made.attributes, values, row)[:, ::32, ::32].reshape(-1)
    tiles = [1000 * operand + tile for operand, tile in spliced_tiles(made, shapes)]
    assert tiles == golden.tolist()


def test_a_splice_that_does_not_use_up_its_operands_is_refused() -> None:
    made, (one, two) = SPLICES["by rows"]
    larger = TensorShape(1, 1, 4, 8)
    for change, shapes, message in (
        ({}, (one, larger), "take 6 blocks and use up 6, 8 of the operands, got 6 and 6, 6"),
        ({"input0": [0, 1, 1]}, (one, two), "take 6 blocks and use up 6, 6 of the operands, got 6 and 3, 6"),
        ({"input0": [0, 4, 4]}, (one, two), "take 6 blocks"),
        ({"input1": [1, 0, 1]}, (one, two), "input1: expected a length from 1 and a stride no less, got [1, 0, 1]"),
        ({"input1": [1, 2, 1]}, (one, two), "input1: expected a length from 1 and a stride no less, got [1, 2, 1]"),
        ({"input1": [-1, 1, 1]}, (one, two), "input1: expected index, length and stride, got [-1, 1, 1]"),
        ({"input1": [1, 1]}, (one, two), "input1: expected index, length and stride, got [1, 1]"),
        ({"input1": 3}, (one, two), "input1: expected index, length and stride, got 3"),
        ({}, (TensorShape(1, 2, 4, 6), two), "expected operands of t 1 that 2x1 cores share in blocks of 1x2, got 2x"),
        ({}, (TensorShape(1, 1, 5, 6), two), "expected operands of t 1"),
        ({}, (TensorShape(1, 1, 4, 5), two), "expected operands of t 1"),
    ):
        wrong = op("splice", grid=(2, 1), mblock=(2, 3), ublock=(1, 2), attributes={**made.attributes, **change})
        with pytest.raises(CompilerInputError) as caught:
            spliced_tiles(wrong, shapes)
        assert message in str(caught.value)
    matrices, (first, _) = SPLICES["matrices"]
    with pytest.raises(CompilerInputError, match="f: expected operands of 12 tiles in each matrix, got 4x4x4 tiles"):
        spliced_tiles(matrices, (TensorShape(1, 4, 4, 4), first))


def netlist(*queues: Queue) -> Netlist:
    return Netlist("wormhole_b0", {queue.name: queue for queue in queues}, (), (), "n", {})


def small(rows: int, cols: int) -> Queue:
    return Queue(
        "x",
        "HOST",
        "queue",
        1,
        (1, 1),
        1,
        (1, 1),
        (1, 1),
        "Float16_b",
        0,
        "host",
        ((0, 0),),
        "r",
        (rows, cols),
        (),
        None,
    )


def test_a_result_fills_no_more_of_a_tile_than_its_operand() -> None:
    whole = netlist(small(16, 32))
    assert options_of(whole, op("exp", 1)).tile == (16, 32)
    assert options_of(whole, op("exp", 1, tile=(8, 16))).tile == (8, 16)
    assert options_of(whole, op("exp", 1, tms={0: ("transpose",)})).tile == (32, 16)
    assert options_of(whole, op("exp", 1, tms={0: ("transpose", "hslice(2)", "transpose")})).tile == (16, 32)
    assert options_of(whole, op("matmul")).tile == (32, 32)
    assert options_of(netlist(), op("exp", 1)).tile == (32, 32)


def test_numbers_that_only_some_ops_have() -> None:
    whole = netlist(small(32, 32))

    def asked(kind: str, inputs: int = 2, **attributes: Any) -> OpOptions:
        return options_of(whole, op(kind, inputs, attributes=attributes))

    assert [asked("reduce", 1, dim="z", z=z).z for z in (1, 2, 3)] == [0, 2, 3]
    assert asked("reduce", 1, dim="r", z=3).z == 0
    assert asked("matmul", accumulate=True, z=2).z == 2
    assert (asked("depthwise", m_k=3).blocks, asked("matmul", m_k=3).blocks) == (3, 1)
    with pytest.raises(CompilerInputError, match="z"):
        asked("matmul", accumulate=True, z=1)
    for inputs, attributes in ((2, {}), (3, {"bias": True}), (3, {"requant": True}), (4, {"bias": 1, "dequant": 1})):
        check_operands(op("matmul", inputs, attributes=attributes))
        for other in {1, 2, 3, 4} - {inputs}:
            with pytest.raises(CompilerInputError, match=rf"expected {inputs} of this matmul, got {other}"):
                check_operands(op("matmul", other, attributes=attributes))
    for kind in ("add", "subtract", "multiply", "maximum"):
        check_operands(op(kind, 2))
        with pytest.raises(CompilerInputError, match=rf"\.inputs: expected 2 of {kind}, got 1"):
            check_operands(op(kind, 1))


def test_a_top_goes_on_from_another_one_of_as_many_alone() -> None:
    """`kreduce` leaves out the first sort, so that other numbers would give a wrong top."""
    first = replace(op("topk", attributes={"k": 4}), name="before")
    for made, asked in ((first, 4), (first, 8), (replace(first, type="nop"), 4)):
        graph = Graph("g", 0, 1, (made,))
        whole = replace(netlist(), graphs=(graph,))
        goes_on = replace(op("topk", attributes={"k": asked, "kreduce": True}), inputs=("before", "y"))
        if (made.type, asked) == ("topk", 4):
            assert options_of(whole, goes_on).k == 4
        else:
            with pytest.raises(CompilerInputError, match=f"kreduce: expected the numbers of another topk of {asked}"):
                options_of(whole, goes_on)


def test_a_product_by_an_encoding_has_three_inputs_and_no_fractures() -> None:
    sizes = {"identity": True, "u_kt": 2, "sparse_tile_ptr_bits": 8}
    made = op("matmul", 3, grid=(2, 1), t=3, mblock=(4, 1), ublock=(5, 1), attributes=sizes)
    encoding = options_of(netlist(), made).encoding
    assert encoding is not None
    assert tuple(vars(encoding).values()) == (2, 3, 4, 5, 2, 8, 8)
    for inputs, more, message in (
        (2, {}, "expected sparse tiles, activations and an encoding, got 2 inputs"),
        (3, {"fracture_factor": 2}, "fracture_factor: expected 1 of a matmul with identity, got 2"),
        (3, {"bias": True}, "expected sparse tiles, activations, an encoding and a bias, got 3 inputs"),
    ):
        with pytest.raises(CompilerInputError, match=message):
            options_of(netlist(), op("matmul", inputs, attributes={**sizes, **more}))
    options_of(netlist(), op("matmul", 3, attributes={**sizes, "fracture_factor": 1, "bias": False}))
