"""Plans on the device: op models that the legalizer allows load, those that it refuses for L1 are refused here too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opscope.compiler.buda.balancer.failure import OpModelFailureReason
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.balancer.op_model import Candidate
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.plan_to_binary import buffers
from opscope.compiler.buda.planner import budget_of
from opscope.compiler.target import binary
from opscope.compiler.target.plan import BlockPlan, CoreBuffer, EpochPlan, PlacedOp, Plan
from opscope.compiler.target.program import Binary, EltwiseParams, LayoutParams, Operation, Program, TensorDesc
from opscope.compiler.target.system_desc import load_board
from opscope.simulator.api import BadBinary, Device, OutOfMemory
from opscope.simulator.placed import allocate

BOARDS = ("e150", "n150")
# Rows, inner and columns in tiles: products with few rows leave least room for what streams in.
SHAPES = {
    "e150": [(2, 8, n) for n in range(100, 140, 2)],
    "n150": [(2, 8, n) for n in range(124, 150)],
}


def placed(held: tuple[CoreBuffer, ...], **changes: Any) -> PlacedOp:
    op = PlacedOp("op", 1, 0, 0, 0, 0, (1, 1), False, "R", (1, 1), BlockPlan(), 1, 1, "r", held)
    return replace(op, **changes)


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
        Operation("exp", (1,), (2,), EltwiseParams()),
        Operation("abs", (2,), (3,), EltwiseParams()),
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
