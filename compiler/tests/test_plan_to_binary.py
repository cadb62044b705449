"""Queues of a plan: over which grid a reader takes them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.compiler.buda import plan_to_binary
from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests.graphs import fork, one_tap_convolution
from opscope.compiler.buda.graph import Node, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.netlist.emit import netlist_of
from opscope.compiler.buda.netlist.to_binary import to_binary as netlist_binary
from opscope.compiler.buda.placer.dram import Request, place_queues
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_to_binary import QueueOptions, _core_buffer, _read_as, block_plan, buffers, to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.plan import Allocation, BlockPlan, Plan
from opscope.compiler.target.system_desc import load_board


@pytest.mark.parametrize(
    ("rows", "columns", "grid", "block"), [(4, 6, (2, 3), (2, 2)), (4, 4, (2, 1), (2, 4)), (3, 6, (1, 3), (3, 2))]
)
def test_a_queue_lies_over_its_readers_cores_where_its_shape_divides_so(
    rows: int, columns: int, grid: tuple[int, int], block: tuple[int, int]
) -> None:
    node = Node("x", NodeKind.INPUT, TensorShape(1, 1, rows, columns))
    reader: Any = SimpleNamespace(spec=SimpleNamespace(sparse=None), input_grid=lambda operand: Grid(2, 3 + operand))
    got, shape = _read_as(node, reader, 0)
    assert (got.r, got.c) == grid
    assert (shape.t, shape.mblock_m * shape.ublock.rt, shape.mblock_n * shape.ublock.ct) == (1, *block)


def test_each_row_of_cores_reads_its_own_part_of_a_picker() -> None:
    node = Node("x", NodeKind.CONSTANT, TensorShape(1, 1, 4, 6))
    reader: Any = SimpleNamespace(
        spec=SimpleNamespace(sparse=object()),
        input_grid=lambda operand: Grid(3, 2),
        inputs=[SimpleNamespace(block_shape="its share")],
    )
    assert _read_as(node, reader, 0) == (Grid(3, 1), "its share")
    assert _read_as(node, reader, 1)[0] == Grid(1, 2)


def test_each_queue_knows_its_tensor_but_a_pickers() -> None:
    planned = plan(one_tap_convolution(), budget_of("n150"))
    program = to_binary(planned, load_board("n150"))
    descs = program.binary.programs[0].tensors
    tensors = {queue.name: queue.tensor for queue in program.binary.plan.queues}
    assert {name: descs[at].shape for name, at in tensors.items() if at >= 0} == {
        "x": (1, 16 * 16, 128),
        "w": (1, 128, 128),
        "y": (1, 16 * 16, 128),
    }
    assert tensors["picker"] == -1  # the convolution's kernel makes it
    rebuilt = netlist_binary(netlist_of(planned, program), "n150").binary.plan
    assert [queue.name for queue in rebuilt.queues if queue.tensor == -1] == ["picker"]
    assert all(queue.tensor >= -1 for queue in rebuilt.queues)


def test_a_buffer_is_held_once_by_default() -> None:
    buffer: Any = SimpleNamespace(data_format="Float16_b", l1_size_tiles=6)
    assert (_core_buffer("input", 1, buffer).tiles, _core_buffer("parameter", 1, buffer, 3).tiles) == (6, 18)
    assert _core_buffer("input", 1, buffer).bytes == 6 * 2080


def requested(monkeypatch: pytest.MonkeyPatch, planned: BudaPlan, **where: Any) -> tuple[Plan, list[list[Request]]]:
    """The plan, and what each chip was asked for."""
    asked: list[list[Request]] = []

    def place(requests: list[Request], budget: Budget, how: str) -> dict[str, tuple[Allocation, ...]]:
        asked.append(list(requests))
        return place_queues(requests, budget, how)

    monkeypatch.setattr(plan_to_binary, "place_queues", place)
    return to_binary(planned, load_board("n150"), QueueOptions(**where)).binary.plan, asked


def forked(**placer: Any) -> BudaPlan:
    """(8x4) @ (4x12) in tiles on 2x3 cores, its exponential on one; then their sum, and the product with that."""
    sizes = LegalizerOptions(overrides={"mm": OpOverride(Grid(2, 3), "n")})
    return plan(fork(), budget_of("n150"), "MinimizeGrid", sizes, placer=PlacerOptions(**placer))


TILE = 2080


def test_each_queue_asks_for_room_for_as_long_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = forked(epoch_breaks=("sum",))
    queues, (asked,) = requested(monkeypatch, made, host_inputs=False, host_outputs=False)
    six = tuple((r, c) for r in range(2) for c in range(3))
    assert (
        asked
        == [
            Request("x", 2 * 32 * TILE, six[:1], True, 0, 0),  # two entries of 8x4
            Request("w", 16 * TILE, six[:3], True, 0, 0),  # 4x12 over three columns
            Request("e2e_mm_0", 16 * TILE, six, False, 0, 1),
            Request("e2e_e_0", 96 * TILE, ((0, 3),), False, 0, 1),
            Request("y", 2 * 96 * TILE, ((0, 0),), True),
        ]
    )
    described = {queue.name: (queue.kind, queue.entries, queue.grid, queue.location) for queue in queues.queues}
    assert described == {
        "x": ("queue", 2, (1, 1), "dram"),
        "w": ("ram", 1, (1, 3), "dram"),
        "e2e_mm_0": ("queue", 1, (2, 3), "dram"),
        "e2e_e_0": ("queue", 1, (1, 1), "dram"),
        "y": ("queue", 2, (1, 1), "dram"),
    }
    blocks = {queue.name: queue.block for queue in queues.queues}
    assert blocks["x"] == BlockPlan(1, 8, 4, 1, 1)
    assert blocks["w"] == BlockPlan(1, 4, 4, 1, 1)
    assert blocks["e2e_mm_0"] == block_plan(made.choices["mm"].model.block)
    assert blocks["e2e_e_0"] == blocks["y"] == BlockPlan(1, 8, 12, 1, 1)
    on_host, (asked,) = requested(monkeypatch, made)
    assert [request.name for request in asked] == ["w", "e2e_mm_0", "e2e_e_0"]
    assert [(q.name, q.allocations) for q in on_host.queues if q.location == "host"] == [
        ("x", (Allocation(0, 0),)),
        ("y", (Allocation(0, 64 * TILE),)),
    ]


def test_each_chip_has_its_own_room_and_what_stays_in_an_epoch_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    together = forked()
    planned_bytes, (asked,) = requested(monkeypatch, together)
    assert ([queue.name for queue in planned_bytes.queues], [request.name for request in asked]) == (
        ["x", "w", "y"],
        ["w"],
    )
    # The product starts on the second chip: what it reads of the first one's waits there, its result on its own.
    _, asked_of = requested(monkeypatch, forked(chip_breaks=("prod",), chips=2), host_outputs=False)
    assert [[request.name for request in requests] for requests in asked_of] == [["w", "e2e_e_0", "e2e_sum_0"], ["y"]]
    # What the solver cuts waits in DRAM though its reader is in the same epoch.
    cut = replace(together, cuts=together.graph.operands("e"))
    _, (asked,) = requested(monkeypatch, cut)
    assert [(r.name, r.first_epoch, r.last_epoch) for r in asked] == [("w", 0, 0), ("e2e_mm_0", 0, 0)]


def test_an_accumulated_result_and_a_parameter_are_held_for_every_t() -> None:
    block = BlockShape(5, 2, 3, UBlock(1, 1))
    buffer = BufferModel.whole(block, 2, "Float16_b")
    for gradient, times in ((False, 1), (True, 5)):
        spec = OpSpec("add", gradient=gradient)
        model = OpModel(spec, Grid(1, 1), StreamFactor(), (buffer, buffer), buffer, (None, buffer), (buffer,), (), 1)
        assert [(b.role, b.operand, b.tiles) for b in buffers(model)] == [
            ("input", 0, 12),
            ("input", 1, 12),
            ("output", 0, 12 * times),
            ("intermediate", 0, 12),
            ("parameter", 1, 60),
        ]
