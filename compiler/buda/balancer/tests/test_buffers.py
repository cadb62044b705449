"""Input buffers by hand: of products with a fused bias and of depthwise ones, cut by rows and by columns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from opscope.compiler.buda.balancer.buffers import (
    input_buffers,
    intermediate_buffers,
    is_picker,
    output_buffer,
    parameter_buffers,
)
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Cut, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests.graphs import (
    INPUT,
    OP,
    OUTPUT,
    PARAMETER,
    convolution,
    one_tap_convolution,
    reduction,
    shape,
    sum_of,
)
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, OpSpec
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.target.formats import number_format

BLOCK = UBlock(1, 2)
ROWS, COLUMNS = (Grid(2, 3), StreamFactor("R", 2, 1)), (Grid(2, 1), StreamFactor("C", 1, 3))
TILE = number_format("Float16_b").buda_tile_bytes


def product(kind: str, left: str = "Float16_b", bias: str = "Float16") -> BudaGraph:
    """(8x4) x (4x6) + (8x6), in tiles, each operand in a format of its own."""
    nodes = (
        Node("x", INPUT, shape(8, 4), left),
        Node("w", PARAMETER, shape(4, 6), "Bfp8_b"),
        Node("b", PARAMETER, shape(8, 6), bias),
        Node("op", OP, shape(8, 6), op=OpSpec(kind)),
        Node("y", OUTPUT, shape(8, 6)),
    )
    edges = (Edge("x", "op", 0), Edge("w", "op", 1), Edge("b", "op", 2), Edge("op", "y", 0))
    return BudaGraph(kind, nodes, edges)


def inputs(kind: str, grid: Grid, stream: StreamFactor, space: int = 0, u_kt: int = 0) -> tuple[BufferModel, ...]:
    graph = product(kind)
    output = BlockShape.of(shape(8, 6), grid, stream, BLOCK)
    return input_buffers(graph, Cut(graph.node("op"), grid, stream, output), space, u_kt)


@pytest.mark.parametrize(
    ("cut", "left", "right", "bias"),
    [
        (ROWS, BlockShape(2, 2, 2, BLOCK), BlockShape(2, 4, 1, BLOCK), BlockShape(1, 8, 1, BLOCK)),
        (COLUMNS, BlockShape(3, 4, 2, BLOCK), BlockShape(3, 4, 1, BLOCK), BlockShape(1, 8, 3, BLOCK)),
    ],
    ids=["rows", "columns"],
)
def test_a_depthwise_product_goes_one_tile_at_a_time(cut, left, right, bias) -> None:
    assert inputs("depthwise", *cut) == (
        BufferModel(left, 2, 2, "Float16_b"),
        BufferModel(right, 2, 2, "Bfp8_b"),
        BufferModel(bias, 2, 2, "Float16"),
    )


@pytest.mark.parametrize(
    ("cut", "left", "right", "bias"),
    [
        (ROWS, (2, 2, 2, UBlock(1, 2)), (2, 2, 1, UBlock(2, 2)), (1, 8, 1, BLOCK)),
        (COLUMNS, (3, 4, 2, UBlock(1, 2)), (3, 2, 1, UBlock(2, 2)), (1, 8, 3, BLOCK)),
    ],
    ids=["rows", "columns"],
)
def test_a_product_holds_two_micro_blocks_and_two_rows_of_them(cut, left, right, bias) -> None:
    assert inputs("matmul", *cut, u_kt=2) == (
        BufferModel(BlockShape(*left), 2, 2, "Float16_b"),
        BufferModel(BlockShape(*right), 4, 2, "Bfp8_b"),
        BufferModel(BlockShape(*bias), 2, 2, "Float16"),
    )


def test_the_inner_block_is_as_deep_as_what_the_bias_leaves() -> None:
    """A step of one tile takes two of the left operand and two rows of two of the right one; the bias four tiles."""
    step, bias = 2 * TILE + 4 * number_format("Bfp8_b").buda_tile_bytes, 4 * TILE

    def depth(space: int) -> int:
        return inputs("matmul", *ROWS, space=space)[0].block_shape.ublock.ct

    assert [depth(bias + count * step) for count in (1, 2, 3, 4, 9)] == [1, 2, 2, 4, 4]
    assert [depth(bias + count * step - 1) for count in (1, 2, 4)] == [1, 1, 2]
    assert depth(bias) == 1
    large = 4 * number_format("Float32").buda_tile_bytes  # more than two steps of narrow operands
    graph, output = product("matmul", "Bfp2_b", "Float32"), BlockShape.of(shape(8, 6), *ROWS, BLOCK)
    depths = [
        input_buffers(graph, Cut(graph.node("op"), *ROWS, output), large - less, 0)[0].block_shape.ublock.ct
        for less in (0, 1)
    ]
    assert depths == [1, 2]
    assert depth(bias - 1) == (2 if 2 * step <= bias - 1 else 1), "a bias that does not fit takes nothing away"


def gathered(space: int, u_kt: int = 0, columns: int = 2) -> tuple[BufferModel, ...]:
    """Inputs of a sparse product: 8 x 8 tiles, of which the 8 of the diagonal are one and the same, times 8 x 4."""
    graph, grid = one_tap_convolution(), Grid(1, columns)
    node = graph.node("gather")
    output = BlockShape.of(node.shape, grid, StreamFactor(), UBlock(1, 2))
    return input_buffers(graph, Cut(node, grid, StreamFactor(), output), space, u_kt)


def test_a_sparse_product_holds_each_different_tile_once_and_its_encoding() -> None:
    """The zero tile and the diagonal one; 8 strips of 6 bytes, 8 blocks and 8 tiles of 2 bytes fit into one tile."""
    picker, right, encoding = gathered(0, u_kt=2)
    assert picker == BufferModel(BlockShape(1, 1, 1, UBlock(1, 2)), 2, 1, "Bfp2_b")
    assert encoding == BufferModel(BlockShape(1, 1, 1, UBlock(1, 1)), 1, 1, "UInt32")
    assert right == BufferModel(BlockShape(1, 4, 1, UBlock(2, 2)), 4, 2, "Float16_b")
    assert gathered(0, u_kt=2, columns=1)[1] == BufferModel(BlockShape(1, 4, 2, UBlock(2, 2)), 8, 2, "Float16_b")


def test_the_inner_block_fills_the_space_left_by_other_buffers() -> None:
    """A step of one tile takes two rows of two tiles of the right operand."""
    step = 4 * TILE
    kept = sum(number_format(name).buda_tile_bytes * tiles for name, tiles in (("Bfp2_b", 2), ("UInt32", 1)))

    def depth(space: int, columns: int = 2) -> int:
        return gathered(space, columns=columns)[1].block_shape.ublock.rt

    assert [depth(kept + count * step) for count in (0, 1, 2, 3, 4, 8, 9)] == [1, 1, 2, 2, 4, 8, 8]
    assert [depth(kept + count * step - 1) for count in (1, 2, 4, 8)] == [1, 1, 2, 4]
    assert [depth(kept + 4 * step, columns) for columns in (1, 2)] == [2, 4]


def test_room_for_its_encoding_is_kept_for_inner_blocks_of_one_tile() -> None:
    """512 strips of 6 bytes, blocks and tiles of 2 bytes: two tiles of 4 KiB, of which deeper blocks need one."""
    picker, core = SparsePattern(512, 512, tuple((row, row, 1) for row in range(512))), Grid(1, 2)
    graph = convolution(picker, 4, 4)
    node = graph.node("gather")
    output = BlockShape.of(node.shape, core, StreamFactor(), UBlock(1, 2))
    kept = sum(number_format(name).buda_tile_bytes * tiles for name, tiles in (("Bfp2_b", 2), ("UInt32", 2)))
    allocated = [
        input_buffers(graph, Cut(node, core, StreamFactor(), output), kept + 4 * 4 * TILE - less, 0) for less in (0, 1)
    ]
    assert [buffers[1].block_shape.ublock.rt for buffers in allocated] == [4, 2]
    assert [buffers[2].l1_size_tiles for buffers in allocated] == [1, 1]


def test_a_sparse_product_that_is_cut_by_columns_has_all_its_rows_at_once() -> None:
    """The second of two taps starts over: cut by rows, the inner block would have to be all 8 tiles deep."""
    picker = SparsePattern.of_convolution((16, 16), (2, 1), (1, 1), ((0, 1), (0, 0)))
    graph, core = convolution(picker, 4, 4), Grid(1, 1)
    node = graph.node("gather")

    def depth(stream: StreamFactor) -> list[int]:
        output = BlockShape.of(node.shape, core, stream, UBlock(1, 2))
        allocated = input_buffers(graph, Cut(node, core, stream, output), 8 * 4 * TILE, 0)
        return [buffer.block_shape.ublock.rt for buffer in allocated[1:2]]

    assert depth(StreamFactor("C", 1, 2)) == [4]
    assert depth(StreamFactor("R", 2, 1)) == []


@pytest.mark.parametrize(
    ("dim", "space", "block"),
    [
        ("c", 4, (1, 8, 3, UBlock(1, 2))),
        ("c", 12, (1, 8, 1, UBlock(1, 6))),
        ("c", 7, (1, 8, 2, UBlock(1, 3))),
        ("r", 8, (1, 4, 3, UBlock(2, 2))),
        ("r", 31, (1, 2, 3, UBlock(4, 2))),
        ("r", 0, (1, 8, 3, UBlock(1, 2))),
    ],
)
def test_a_reduction_goes_as_deep_as_two_micro_blocks_fit(
    dim: str, space: int, block: tuple[int, int, int, UBlock]
) -> None:
    """Of 8 x 6 tiles on one core; `space` in tiles."""
    graph = reduction(8, 6, dim)
    node, core = graph.node("op"), Grid(1, 1)
    output = BlockShape.of(node.shape, core, StreamFactor(), UBlock(1, 1 if dim == "c" else 2))
    (got,) = input_buffers(graph, Cut(node, core, StreamFactor(), output), space * TILE, 0)
    assert got == BufferModel(BlockShape(*block), block[-1].tiles, 2, "Float16_b")


def test_other_ops_hold_two_micro_blocks_of_each_operand() -> None:
    graph = sum_of(2, 8, 6)
    output = BlockShape.of(shape(8, 6), *ROWS, BLOCK)
    block = BlockShape(2, 2, 1, BLOCK)
    assert (
        input_buffers(graph, Cut(graph.node("op"), *ROWS, output), 0, 0) == (BufferModel(block, 2, 2, "Float16_b"),) * 2
    )


@pytest.mark.parametrize(
    ("spec", "formats"),
    [
        (OpSpec("matmul"), []),
        (OpSpec("matmul", intermediate_format="Float32"), ["Float32"]),
        (OpSpec("matmul", intermediate_format="Float16_b"), []),
        (OpSpec("exp", intermediate_format="Float32"), []),
        (OpSpec("exp", intermediate_format="Float32", gradient=True), ["Float32"]),
        (OpSpec("reduce", intermediate_format="Float32", reduce_dim="c"), []),
        (OpSpec("reduce", intermediate_format="Float32", reduce_dim="z"), ["Float32"]),
    ],
)
def test_partial_results_in_a_format_of_their_own_have_one_buffer(spec: OpSpec, formats: list[str]) -> None:
    node = Node("op", OP, shape(8, 6), op=spec)
    output = output_buffer(node, BlockShape(2, 3, 1, BLOCK), 3)
    assert (output.held, output.factor) == (6, 1 if spec.gradient else 6)
    allocated = intermediate_buffers(node, output)
    assert [(b.data_format, b.held, b.factor) for b in allocated] == [(name, 6, 1) for name in formats]


def test_steps_of_a_fused_op_leave_a_micro_block_each() -> None:
    fused: Any = SimpleNamespace(intermediates=3)
    for said, held_as in (("", "Float16_b"), ("Float32", "Float32")):
        node = Node("op", OP, shape(8, 6), op=OpSpec("fused_op", fused=fused, intermediate_format=said))
        output = output_buffer(node, BlockShape(2, 3, 1, BLOCK), 3)
        assert intermediate_buffers(node, output) == (BufferModel(BlockShape(1, 1, 1, BLOCK), 2, 1, held_as),) * 3


def test_a_resident_parameter_is_shared_out_over_the_cores_as_far_as_it_divides() -> None:
    graph = product("matmul")
    left, right, bias = parameter_buffers(graph, graph.node("op"), Grid(2, 4))
    assert left is None
    assert right == BufferModel(BlockShape(1, 2, 2, UBlock(1, 1)), 4, 1, "Bfp8_b")
    assert bias == BufferModel(BlockShape(1, 4, 2, UBlock(1, 1)), 8, 1, "Float16")
    sparse = one_tap_convolution()
    nodes = [sparse.node("gather"), sparse.node("gather"), graph.node("op"), graph.node("op")]
    assert [is_picker(node, operand) for node, operand in zip(nodes, (0, 1, 0, 1), strict=True)] == [True, *[False] * 3]
    assert parameter_buffers(sparse, sparse.node("gather"), Grid(1, 1)) == (None, None)


def test_a_product_reads_its_left_operand_by_rows_of_cores_and_its_right_one_by_columns() -> None:
    output = BufferModel.whole(BlockShape.of(shape(8, 6), *ROWS, BLOCK), 2, "Float16_b")
    read = inputs("matmul", *ROWS, u_kt=2)
    models = [OpModel(OpSpec(kind), *ROWS, read, output, (), (), (), 0) for kind in ("matmul", "exp")]
    assert [models[0].input_grid(operand) for operand in (0, 1, 2)] == [Grid(2, 1), Grid(1, 3), Grid(1, 3)]
    assert [models[1].input_grid(operand) for operand in (0, 1)] == [Grid(2, 3)] * 2
    assert [(model.u_kt, model.m_k) for model in models] == [(2, 2), (1, 1)]
