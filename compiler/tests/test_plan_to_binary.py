"""Queues of a plan: over which grid a reader takes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests.graphs import one_tap_convolution
from opscope.compiler.buda.graph import Node, NodeKind, TensorShape
from opscope.compiler.buda.netlist.emit import netlist_of
from opscope.compiler.buda.netlist.to_binary import to_binary as netlist_binary
from opscope.compiler.buda.plan_to_binary import _core_buffer, _read_as, to_binary
from opscope.compiler.buda.planner import budget_of, plan
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
        spec=SimpleNamespace(sparse=object()), input_grid=lambda operand: Grid(3, 2),
        inputs=[SimpleNamespace(block_shape="its share")],
    )  # fmt: skip
    assert _read_as(node, reader, 0) == (Grid(3, 1), "its share")
    assert _read_as(node, reader, 1)[0] == Grid(1, 2)


def test_each_queue_knows_its_tensor_but_a_pickers() -> None:
    planned = plan(one_tap_convolution(), budget_of("n150"))
    program = to_binary(planned, load_board("n150"))
    held = program.binary.programs[0].tensors
    tensors = {queue.name: queue.tensor for queue in program.binary.plan.queues}
    assert {name: held[at].shape for name, at in tensors.items() if at >= 0} == {
        "x": (1, 16 * 16, 128), "w": (1, 128, 128), "y": (1, 16 * 16, 128),
    }  # fmt: skip
    assert tensors["picker"] == -1  # the convolution's kernel makes it
    rebuilt = netlist_binary(netlist_of(planned, program), "n150").binary.plan
    assert [queue.name for queue in rebuilt.queues if queue.tensor == -1] == ["picker"]
    assert all(queue.tensor >= -1 for queue in rebuilt.queues)


def test_a_buffer_is_held_once_unless_said_otherwise() -> None:
    buffer: Any = SimpleNamespace(data_format="Float16_b", l1_size_tiles=6)
    assert (_core_buffer("input", 1, buffer).tiles, _core_buffer("parameter", 1, buffer, 3).tiles) == (6, 18)
    assert _core_buffer("input", 1, buffer).bytes == 6 * 2080
