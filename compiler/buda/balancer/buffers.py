"""The buffers of an op on one core: output, intermediate, resident parameters, and inputs in the rest of L1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opscope.compiler.buda.balancer.shapes import (
    BlockShape,
    BufferModel,
    Cut,
    Grid,
    StreamFactor,
    UBlock,
    divisors,
    largest_divisor,
)
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, TensorShape
from opscope.compiler.buda.sparse_pattern import SparseShare
from opscope.compiler.target.formats import number_format

DOUBLE = 2
"""Copies of a buffer that is filled while it is read."""


def output_buffer(node: Node, block: BlockShape, user_factor: int) -> BufferModel:
    """Returns the output buffer: two macro blocks for each that users hold; an accumulating op holds all of it once."""
    factor = 1 if node.spec.gradient else DOUBLE * user_factor
    return BufferModel.whole(block, factor, node.data_format)


def intermediate_buffers(node: Node, output: BufferModel) -> tuple[BufferModel, ...]:
    """Returns buffers of partial results, for ops that have any in another format than the output.

    For a fused op they hold the results of its steps, a micro block each.
    """
    spec = node.spec
    if spec.fused is not None:
        one = BlockShape(1, 1, 1, output.block_shape.ublock)
        partial = BufferModel.whole(one, 1, spec.intermediate_format or node.data_format)
        return (partial,) * spec.fused.intermediates
    accumulates = spec.gradient or spec.is_matmul or (spec.type == "reduce" and spec.reduce_dim == "z")
    held_as = spec.intermediate_format or node.data_format
    if not accumulates or held_as == node.data_format:
        return ()
    return (BufferModel.whole(output.block_shape, 1, held_as),)


def parameter_buffers(graph: BudaGraph, node: Node, grid: Grid) -> tuple[BufferModel | None, ...]:
    """Returns per operand a parameter's or constant's share of each core if it stays in L1; None for other operands."""
    buffers: list[BufferModel | None] = []
    for edge in graph.operands(node.name):
        source = graph.node(edge.producer)
        if not source.kind.is_resident or is_picker(node, edge.operand):
            buffers.append(None)
            continue
        over = Grid(largest_divisor(source.shape.rt, grid.r), largest_divisor(source.shape.ct, grid.c))
        block = BlockShape.of(source.shape, over, StreamFactor(), UBlock(1, 1))
        buffers.append(BufferModel.whole(block, 1, source.data_format))
    return tuple(buffers)


def is_picker(node: Node, operand: int) -> bool:
    """Whether the operand is a sparse matmul's left one; of this, cores hold each different tile once."""
    return node.spec.sparse is not None and operand == 0


def input_buffers(graph: BudaGraph, cut: Cut, space: int, u_kt: int) -> tuple[BufferModel, ...]:
    """Returns the input buffers for `space` bytes; `u_kt` sets the inner block, 0 leaves it to the space.

    Returns nothing if no inner block of a sparse matmul is legal and fits.
    """
    return _MAKERS.get(cut.node.spec.type, _eltwise)(graph, cut, space, u_kt)


Maker = Callable[[BudaGraph, Cut, int, int], tuple[BufferModel, ...]]


def node_format(graph: BudaGraph, edge: Edge) -> str:
    """Returns the number format in which an operand arrives."""
    return graph.node(edge.producer).data_format


def _tile_bytes(graph: BudaGraph, edge: Edge) -> int:
    return number_format(node_format(graph, edge)).buda_tile_bytes


def _streamed(shape: TensorShape, rows: int, cols: int, t: int) -> TensorShape:
    return replace(shape, z=shape.z * t, rt=shape.rt // rows, ct=shape.ct // cols)


def _eltwise(graph: BudaGraph, cut: Cut, space: int, u_kt: int) -> tuple[BufferModel, ...]:
    """Returns two micro blocks per operand."""
    buffers = []
    for edge in graph.operands(cut.node.name):
        shape = _streamed(graph.operand_shape(edge), cut.stream.r, cut.stream.c, cut.stream.t)
        block = BlockShape.of(shape, cut.grid, StreamFactor(), cut.block.ublock)
        buffers.append(BufferModel(block, cut.block.ublock.tiles, DOUBLE, node_format(graph, edge)))
    return tuple(buffers)


def _matmul(graph: BudaGraph, cut: Cut, space: int, u_kt: int) -> tuple[BufferModel, ...]:
    """Returns two micro blocks (left) and two rows of them (right), as deep in the inner dimension as space allows."""
    grid, stream, output = cut.grid, cut.stream, cut.block
    edges = graph.operands(cut.node.name)
    left, right = (graph.operand_shape(edge) for edge in edges[:2])
    extra = tuple(_fused_bias(graph, edge, cut) for edge in edges[2:])
    for buffer in extra:
        if buffer.l1_bytes <= space:
            space -= buffer.l1_bytes
    ublock = output.ublock
    if not u_kt:
        bytes0 = ublock.rt * _tile_bytes(graph, edges[0]) * DOUBLE
        bytes1 = output.mblock_n * ublock.ct * _tile_bytes(graph, edges[1]) * DOUBLE
        u_kt = largest_divisor(left.ct, max(1, space // (bytes0 + bytes1)))
    rows, cols = (stream.r, 1) if stream.by_rows else (1, stream.c)
    left, right = _streamed(left, rows, 1, stream.t), _streamed(right, 1, cols, stream.t)
    block0 = BlockShape.of(left, Grid(grid.r, 1), StreamFactor(), UBlock(ublock.rt, u_kt))
    block1 = BlockShape.of(right, Grid(1, grid.c), StreamFactor(), UBlock(u_kt, ublock.ct))
    return (
        BufferModel(block0, block0.ublock.tiles, DOUBLE, node_format(graph, edges[0])),
        BufferModel(block1, output.mblock_n * block1.ublock.tiles, DOUBLE, node_format(graph, edges[1])),
        *extra,
    )


def _sparse(graph: BudaGraph, cut: Cut, space: int, u_kt: int) -> tuple[BufferModel, ...]:
    """Returns each different tile once with the encoding (left), and two rows of micro blocks (right)."""
    grid, stream, output = cut.grid, cut.stream, cut.block
    edges, pattern = graph.operands(cut.node.name), cut.node.spec.pattern
    rows = stream.r if stream.by_rows else 1
    ublock = output.ublock
    share = pattern.share(grid.r, rows, stream.z_major, ublock.rt, u_kt or 1)
    picker = _once(share.unique_tiles, node_format(graph, edges[0]))
    right = graph.operand_shape(edges[1])
    if not u_kt:
        space -= picker.l1_bytes + _encoding(share).l1_bytes
        legal = pattern.legal_inner_tiles(grid.r, rows, stream.z_major, divisors(pattern.cols))
        by_space = max(1, space // (output.mblock_n * ublock.ct * _tile_bytes(graph, edges[1]) * DOUBLE))
        by_bits = pattern.most_inner_tiles(output.mblock_m, ublock.rt)
        fitting = [size for size in legal if size <= min(by_space, by_bits)]
        if not fitting:
            return ()
        u_kt = max(fitting)
        share = pattern.share(grid.r, rows, stream.z_major, ublock.rt, u_kt)
    right = _streamed(right, 1, 1 if stream.by_rows else stream.c, 1)
    block1 = BlockShape.of(right, Grid(1, grid.c), StreamFactor(), UBlock(u_kt, ublock.ct))
    return (
        picker,
        BufferModel(block1, output.mblock_n * block1.ublock.tiles, DOUBLE, node_format(graph, edges[1])),
        _encoding(share),
    )


def _encoding(share: SparseShare) -> BufferModel:
    """Returns the encoding in whole tiles of 32-bit words."""
    return _once(-(-share.encoding_bytes // number_format("UInt32").tile_bytes), "UInt32")


def _once(tiles: int, data_format: str) -> BufferModel:
    return BufferModel.whole(BlockShape(1, 1, 1, UBlock(1, tiles)), 1, data_format)


def _depthwise(graph: BudaGraph, cut: Cut, space: int, u_kt: int) -> tuple[BufferModel, ...]:
    """Returns the same as for a matmul, but the kernel goes through the inner dimension one tile at a time."""
    grid, stream, output = cut.grid, cut.stream, cut.block
    edges = graph.operands(cut.node.name)
    left, right = (graph.operand_shape(edge) for edge in edges[:2])
    rows, cols = (stream.r, 1) if stream.by_rows else (1, stream.c)
    left, right = _streamed(left, rows, 1, stream.t), _streamed(right, 1, cols, stream.t)
    block0 = BlockShape.of(left, Grid(grid.r, 1), StreamFactor(), output.ublock)
    block1 = BlockShape.of(right, Grid(1, grid.c), StreamFactor(), UBlock(1, output.ublock.ct))
    return (
        BufferModel(block0, output.ublock.tiles, DOUBLE, node_format(graph, edges[0])),
        BufferModel(block1, output.mblock_n * output.ublock.ct, DOUBLE, node_format(graph, edges[1])),
        *(_fused_bias(graph, edge, cut) for edge in edges[2:]),
    )


def _fused_bias(graph: BudaGraph, edge: Edge, cut: Cut) -> BufferModel:
    """Returns two micro blocks of a fused bias."""
    shape = graph.operand_shape(edge)
    block = BlockShape.of(shape, Grid(1, cut.grid.c), StreamFactor(), cut.block.ublock)
    return BufferModel(block, cut.block.ublock.tiles, DOUBLE, node_format(graph, edge))


def _reduce(graph: BudaGraph, cut: Cut, space: int, u_kt: int) -> tuple[BufferModel, ...]:
    """Returns two micro blocks, as deep along the reduced dimension as space allows."""
    node, stream, output = cut.node, cut.stream, cut.block
    dim = node.spec.reduce_dim
    if dim == "z":
        return _eltwise(graph, cut, space, u_kt)
    (edge,) = graph.operands(node.name)
    shape = _streamed(graph.operand_shape(edge), stream.r, stream.c, stream.t)
    across, along = (output.ublock.ct, shape.rt) if dim == "r" else (output.ublock.rt, shape.ct)
    deep = u_kt or largest_divisor(along, space // (across * _tile_bytes(graph, edge) * DOUBLE))
    ublock = UBlock(deep, across) if dim == "r" else UBlock(across, deep)
    block = BlockShape.of(shape, cut.grid, StreamFactor(), ublock)
    return (BufferModel(block, ublock.tiles, DOUBLE, node_format(graph, edge)),)


_MAKERS: dict[str, Maker] = {"matmul": _matmul, "sparse_matmul": _sparse, "depthwise": _depthwise, "reduce": _reduce}
"""Op type -> the function for its input buffers; every other op is elementwise."""
