"""Plans on the device: op models that the legalizer allows load, those that it refuses for L1 are refused here too."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from opscope.compiler.buda.balancer.failure import OpModelFailureReason
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.balancer.op_model import Candidate
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.plan_to_binary import buffers
from opscope.compiler.buda.planner import budget_of
from opscope.compiler.target import binary
from opscope.compiler.target.host_program import HostProgram, Instruction
from opscope.compiler.target.plan import BlockPlan, CoreBuffer, EpochPlan, PlacedOp, Plan
from opscope.compiler.target.program import (
    Binary,
    EltwiseParams,
    LayoutParams,
    Numerics,
    Operation,
    Program,
    TensorDesc,
)
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.api import BadBinary, Device, OutOfMemory, WrongBoard
from opscope.simulator.placed import allocate

BOARDS = ("e150", "n150")
# Rows, inner and columns in tiles: products with few rows leave least room for what streams in.
SHAPES = {
    "e150": [(2, 8, n) for n in range(100, 140, 2)],
    "n150": [(2, 8, n) for n in range(124, 150)],
}


def placed(buffers: tuple[CoreBuffer, ...], **changes: Any) -> PlacedOp:
    op = PlacedOp("op", 1, 0, 0, 0, 0, (1, 1), False, "R", (1, 1), BlockPlan(), 1, 1, "r", buffers)
    return replace(op, **changes)


@cache
def candidates(board: str) -> list[Candidate]:
    budget = budget_of(board)
    return [c for shape in SHAPES[board] for c in legalize(graphs.matmul(*shape), "mm", budget).candidates]


@pytest.mark.parametrize("board", BOARDS)
def test_fifty_legal_op_models_load(board: str) -> None:
    models = sorted((m for c in candidates(board) for m in c.models), key=lambda model: -model.l1_bytes)[:50]
    assert len(models) == 50
    assert models[0].l1_bytes > 0.98 * load_board(board).buda.l1_usable
    for model in models:
        op = placed(buffers(model))
        assert op.l1_bytes == model.l1_bytes
        assert len(set(allocate(op, load_board(board)))) == len(op.buffers)


@pytest.mark.parametrize("board", BOARDS)
def test_fifty_that_the_legalizer_refuses_for_l1_are_refused(board: str) -> None:
    wanted = OpModelFailureReason.L1UsageOverMaxLimit
    models = [c.rejected for c in candidates(board) if c.failure is wanted and c.rejected is not None][:50]
    assert len(models) == 50
    for model in models:
        with pytest.raises(OutOfMemory, match="expected at most"):
            allocate(placed(buffers(model)), load_board(board))


def program_of(*ops: PlacedOp, epochs: int = 1) -> bytes:
    host = TensorDesc((1, 32, 32), "f32", "Float32", "row_major", "system_memory")
    tile = TensorDesc((1, 32, 32), "f32", "Float16_b", "tile", "dram")
    calls = (
        Operation("to_device", (0,), (1,), LayoutParams()),
        Operation("exp", (1,), (2,), EltwiseParams(), Numerics(dst_format="Float16_b")),
        Operation("abs", (2,), (3,), EltwiseParams(), Numerics(dst_format="Float16_b")),
        Operation("from_device", (3,), (4,), LayoutParams()),
    )
    program = Program("main", (host, tile, tile, tile, host), (0,), (4,), calls)
    numbered = tuple(EpochPlan(i, 0, "forward") for i in range(epochs))
    return binary.write(Binary("n150", "wormhole_b0", (program,), "", Plan("p", "", numbered, ops)))


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        ((placed(()), placed((), name="b", operation=2)), "expected one op on core"),
        ((placed((), col=8),), "cores of a chip"),
        ((placed((), epoch=3),), "an operation and an epoch"),
        ((placed((), operation=9),), "an operation and an epoch"),
        ((placed(()), placed((), name="b", operation=2, epoch=1, col=1)), "expected a queue between op and b"),
    ],
)
def test_a_plan_that_no_chip_can_follow_is_refused(ops: tuple[PlacedOp, ...], message: str) -> None:
    with pytest.raises(BadBinary, match=message):
        Device("n150").load(program_of(*ops, epochs=2))


def test_buffers_that_do_not_fit_are_refused_at_load() -> None:
    big = CoreBuffer("output", 0, "Float16_b", 600, 2080)
    with pytest.raises(OutOfMemory):
        Device("n150").load(program_of(placed((big,))))


def harvested(row: int, masks: tuple[int, ...], chip_ids: tuple[int, ...] = (), board: str = "e150") -> bytes:
    """A program with one op on that row of its last chip."""
    made = binary.read(program_of(placed((), row=row, chip=(chip_ids or (0,))[-1])))
    epochs = (EpochPlan(0, (chip_ids or (0,))[-1], "forward"),)
    arch = load_board(board).arch
    plan = replace(made.plan, epochs=epochs)
    return binary.write(replace(made, board=board, arch=arch, plan=plan, harvested=masks, chip_ids=chip_ids))


def test_a_plan_is_checked_against_the_rows_that_are_left() -> None:
    device = Device("e150")
    device.load(harvested(9, ()))
    device.load(harvested(7, (2050,)))
    with pytest.raises(BadBinary, match=r"on the 8x12 cores of a chip, got \(8, 0\)"):
        device.load(harvested(8, (2050,)))
    device.load(harvested(8, (2050, 2), (4, 7)))
    with pytest.raises(BadBinary, match="on the 9x12 cores"):
        device.load(harvested(9, (2050, 2), (4, 7)))


@pytest.mark.parametrize(
    ("masks", "chip_ids", "message"),
    [
        ((64,), (), "expected rows 1-5 and 7-11, got 6"),
        ((4094 & ~64,), (), "expected fewer than 9"),
        ((2, 2), (1,), "expected chips that differ and a mask for each"),
        ((), (1, 1), "expected chips that differ and a mask for each"),
        ((), (-1, 0), "expected chips that differ and a mask for each"),
    ],
)
def test_masks_that_no_chip_has_are_refused(masks: tuple[int, ...], chip_ids: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadBinary, match=message):
        Device("e150").load(harvested(0, masks, chip_ids))


def test_a_plan_names_only_chips_that_it_was_made_for() -> None:
    made = replace(binary.read(harvested(0, ())), chip_ids=(3,))
    with pytest.raises(BadBinary, match=r"expected chips of \[3\], got 0"):
        Device("e150").load(binary.write(made))


@pytest.mark.parametrize(
    ("board", "device", "mask", "loads"),
    [
        ("e150", "e150-harvested-2050", 2050, True),
        ("e150", "e150-harvested-2", 2050, True),
        ("e150", "e150-harvested-4", 2050, False),  # Grayskull's rows are where they are
        ("e150", "e150-harvested-2050", 0, False),
        ("n150", "n150-harvested-4", 2050, True),  # Wormhole's NoC numbers the rows that are left
        ("n150", "n150-harvested-2052", 2048, False),
        ("e150", "n150", 0, False),
    ],
)
def test_a_harvested_board_takes_plans_whose_rows_it_has(board: str, device: str, mask: int, loads: bool) -> None:
    data = harvested(0, (mask,), board=board)
    if loads:
        Device(device).load(data)
    else:
        with pytest.raises(WrongBoard, match=f"expected a program for {device}, got one for {board}"):
            Device(device).load(data)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (Instruction("execute", graph="g"), "expected run to execute a graph, got 'g'"),
        (Instruction("allocate_queue", ("q",)), "expected run to name queues, got 'q'"),
        (Instruction("loop"), "expected an endloop"),
    ],
)
def test_programs_name_what_is_there(line: Instruction, message: str) -> None:
    made = binary.read(program_of(placed(())))
    plan = replace(made.plan, programs=(HostProgram("run", (line,)),))
    with pytest.raises(BadBinary, match=message):
        Device("n150").load(binary.write(replace(made, plan=plan)))
