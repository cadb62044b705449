"""Input buffers by hand: of products with a fused bias and of depthwise ones, cut by rows and by columns."""

from __future__ import annotations

import pytest

from opscope.compiler.buda.balancer.buffers import input_buffers
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests.graphs import INPUT, OP, OUTPUT, PARAMETER, shape
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, OpSpec
from opscope.compiler.target.formats import number_format

BLOCK = UBlock(1, 2)
ROWS, COLUMNS = (Grid(2, 3), StreamFactor("R", 2, 1)), (Grid(2, 1), StreamFactor("C", 1, 3))
TILE = number_format("Float16_b").buda_tile_bytes


def product(kind: str) -> BudaGraph:
    """(8x4) x (4x6) + (8x6), in tiles, each operand in a format of its own."""
    nodes = (
        Node("x", INPUT, shape(8, 4), "Float16_b"), Node("w", PARAMETER, shape(4, 6), "Bfp8_b"),
        Node("b", PARAMETER, shape(8, 6), "Float16"), Node("op", OP, shape(8, 6), op=OpSpec(kind)),
        Node("y", OUTPUT, shape(8, 6)),
    )  # fmt: skip
    edges = (Edge("x", "op", 0), Edge("w", "op", 1), Edge("b", "op", 2), Edge("op", "y", 0))
    return BudaGraph(kind, nodes, edges)


def inputs(kind: str, grid: Grid, stream: StreamFactor, space: int = 0, u_kt: int = 0) -> tuple[BufferModel, ...]:
    graph = product(kind)
    output = BlockShape.of(shape(8, 6), grid, stream, BLOCK)
    return input_buffers(graph, graph.node("op"), grid, stream, output, space, u_kt)


@pytest.mark.parametrize(
    ("cut", "left", "right", "bias"),
    [
        (ROWS, BlockShape(2, 2, 2, BLOCK), BlockShape(2, 4, 1, BLOCK), BlockShape(1, 8, 1, BLOCK)),
        (COLUMNS, BlockShape(3, 4, 2, BLOCK), BlockShape(3, 4, 1, BLOCK), BlockShape(1, 8, 3, BLOCK)),
    ],
    ids=["rows", "columns"],
)
def test_a_depthwise_product_goes_one_tile_at_a_time(cut, left, right, bias) -> None:  # type: ignore[no-untyped-def]
    assert inputs("depthwise", *cut) == (
        BufferModel(left, 2, 2, "Float16_b"), BufferModel(right, 2, 2, "Bfp8_b"), BufferModel(bias, 2, 2, "Float16"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cut", "left", "right", "bias"),
    [
        (ROWS, (2, 2, 2, UBlock(1, 2)), (2, 2, 1, UBlock(2, 2)), (1, 8, 1, BLOCK)),
        (COLUMNS, (3, 4, 2, UBlock(1, 2)), (3, 2, 1, UBlock(2, 2)), (1, 8, 3, BLOCK)),
    ],
    ids=["rows", "columns"],
)
def test_a_product_holds_two_micro_blocks_and_two_rows_of_them(cut, left, right, bias) -> None:  # type: ignore[no-untyped-def]
    assert inputs("matmul", *cut, u_kt=2) == (
        BufferModel(BlockShape(*left), 2, 2, "Float16_b"), BufferModel(BlockShape(*right), 4, 2, "Bfp8_b"),
        BufferModel(BlockShape(*bias), 2, 2, "Float16"),
    )  # fmt: skip


def test_the_inner_block_is_as_deep_as_what_the_bias_leaves() -> None:
    """A step of one tile takes two of the left operand and two rows of two of the right one; the bias four tiles."""
    step, bias = 2 * TILE + 4 * number_format("Bfp8_b").buda_tile_bytes, 4 * TILE

    def depth(space: int) -> int:
        return inputs("matmul", *ROWS, space=space)[0].block_shape.ublock.ct

    assert [depth(bias + count * step) for count in (1, 2, 3, 4, 9)] == [1, 2, 2, 4, 4]
    assert [depth(bias + count * step - 1) for count in (1, 2, 4)] == [1, 1, 2]
    assert depth(bias) == 1
    assert depth(bias - 1) == (2 if 2 * step <= bias - 1 else 1), "a bias that does not fit takes nothing away"


def test_a_product_reads_its_left_operand_by_rows_of_cores_and_its_right_one_by_columns() -> None:
    output = BufferModel.whole(BlockShape.of(shape(8, 6), *ROWS, BLOCK), 2, "Float16_b")
    read = inputs("matmul", *ROWS, u_kt=2)
    models = [OpModel(OpSpec(kind), *ROWS, read, output, (), (), (), 0) for kind in ("matmul", "exp")]
    assert [models[0].input_grid(operand) for operand in (0, 1, 2)] == [Grid(2, 1), Grid(1, 3), Grid(1, 3)]
    assert [models[1].input_grid(operand) for operand in (0, 1)] == [Grid(2, 3)] * 2
    assert [(model.u_kt, model.m_k) for model in models] == [(2, 2), (1, 1)]
