"""Whether a producer's op model and a consumer's fit together along an edge of the graph, streamed on both sides.

Tiles leave the producer piece by piece, in the order of its ublocks, and there is space for two pieces. The tiles that
the consumer needs first must come first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from opscope.compiler.buda.balancer.enumerate import consumes_z_major
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.shapes import BlockShape, Grid, StreamFactor, either_divides
from opscope.compiler.buda.graph import BudaGraph, Edge, TensorShape, Tm


class EdgeFailureReason(Enum):
    """Reasons why two op models cannot be neighbours; values are ours, names TT-Buda's."""

    TStreamIncompatibleConsumer = "the consumer streams otherwise than the producer"
    TStreamIllegalTStreamDir = "streaming directions do not fit"
    TStreamBlockIncompatible = "a streamed piece is no whole number of the consumer's micro blocks, in its order"
    TStreamAntiUblockOrderStacking = "pieces would have to be put together against the order of micro blocks"
    TStreamMatmulStreamingSide = "a matmul streams its left operand by rows, its right one by columns"
    TStreamNotDivisableRow = "pieces put together do not divide into the consumer's rows of cores"
    TStreamNotDivisableColumn = "pieces put together do not divide into the consumer's columns of cores"
    ConvSliceStackMatmulStreamingHang = "a sparse matmul that does not stream feeds a matmul that does"


@dataclass(frozen=True)
class End:
    """The part of an op model that matters where it reads an edge: models with equal ends are interchangeable there.

    Where a model writes an edge, only how it streams matters.
    """

    stream: StreamFactor
    grid: Grid
    block: BlockShape

    @classmethod
    def of(cls, model: OpModel, operand: int) -> End:
        """Returns the consuming end: how it streams, on which grid, and in which blocks it reads."""
        return cls(model.stream, model.grid, model.inputs[operand].block_shape)


def edge_failure(graph: BudaGraph, edge: Edge, producer: StreamFactor, consumer: End) -> EdgeFailureReason | None:
    """Returns the reason why the two do not fit together; None if they do. Both ends of the edge are ops."""
    produced, taken = producer, consumer.stream
    if produced.none and taken.none:
        return None
    if edge.has_tm("transpose"):
        produced = produced.transposed
    spec, source = graph.node(edge.consumer).spec, graph.node(edge.producer).spec
    dense = spec.is_matmul and spec.sparse is None
    z_to_rows = _turns_z_to_rows(graph, edge)
    if not _compatible(produced, taken, spec.sparse is not None, z_to_rows):
        return EdgeFailureReason.TStreamIncompatibleConsumer
    # The consumer's input counts z after streaming: more of it than pieces means that the tensor has z of its own.
    has_z = graph.operand_shape(edge).z > 1
    if not _directions_fit(produced, taken, has_z, z_to_rows):
        return EdgeFailureReason.TStreamIllegalTStreamDir
    order = graph.read_order(edge)
    if not produced.none and not _blocks_fit(graph, edge, produced, producer, consumer, order, dense):
        return EdgeFailureReason.TStreamBlockIncompatible
    if not produced.none and taken.none and not producer.follows(order):
        return EdgeFailureReason.TStreamAntiUblockOrderStacking
    if dense and not produced.none and not taken.none and taken.by_rows != (edge.operand == 0) and edge.operand < 2:
        return EdgeFailureReason.TStreamMatmulStreamingSide
    rows, cols = produced.r // taken.r, produced.c // taken.c
    if not (spec.is_matmul and edge.operand == 1) and rows and not either_divides(rows, consumer.grid.r):
        return EdgeFailureReason.TStreamNotDivisableRow
    if not (spec.is_matmul and edge.operand == 0) and cols and not either_divides(cols, consumer.grid.c):
        return EdgeFailureReason.TStreamNotDivisableColumn
    if produced.none and not taken.none and source.sparse is not None and dense:
        return EdgeFailureReason.ConvSliceStackMatmulStreamingHang
    return None


def _turns_z_to_rows(graph: BudaGraph, edge: Edge) -> bool:
    spec = graph.node(edge.consumer).spec
    if spec.type == "reduce" and spec.reduce_dim == "z":
        return True
    return any(consumes_z_major(graph, operand) for operand in graph.operands(edge.consumer))


def _compatible(produced: StreamFactor, taken: StreamFactor, into_sparse: bool, z_to_rows: bool) -> bool:
    if (produced.none and not z_to_rows) or (not produced.z_major and produced.dir != "CZ" and taken.none):
        return True
    same_axis = produced.by_rows == taken.by_rows
    return same_axis and (produced.r == taken.r or into_sparse) and produced.c == taken.c


def _directions_fit(produced: StreamFactor, taken: StreamFactor, has_z: bool, z_to_rows: bool) -> bool:
    if z_to_rows:
        return produced.dir == "RZ" and taken.dir == "R"
    if produced.dir == taken.dir:
        return True
    if has_z and produced.dir in ("RZ", "CZ"):
        return False
    return produced.none or taken.none or produced.by_rows == taken.by_rows


def _blocks_fit(
    graph: BudaGraph,
    edge: Edge,
    produced: StreamFactor,
    untransposed: StreamFactor,
    consumer: End,
    order: str,
    dense: bool,
) -> bool:
    piece = piece_shape(graph, edge, untransposed)
    ublock, block = consumer.block.ublock, consumer.block
    if piece.rt % ublock.rt or piece.ct % ublock.ct:
        return False
    if not produced.follows(order) or dense:
        if order == "r":
            return piece.rt == ublock.rt or piece.ct == block.ct * consumer.grid.c
        return piece.ct == ublock.ct or piece.rt == block.rt * consumer.grid.r
    if order == "r":
        return piece.rt == ublock.rt or produced.c == 1
    return piece.ct == ublock.ct or produced.r == 1


def piece_shape(graph: BudaGraph, edge: Edge, stream: StreamFactor) -> TensorShape:
    """Returns the shape of one streamed piece of the producer as the consumer sees it, if pieces can be joined."""
    shape = _cut(_cut(graph.node(edge.producer).shape, "vslice", stream.r), "hslice", stream.c)
    ratio = 1
    for tm in edge.tms:
        if tm.is_slice:
            ratio *= tm.factor
            shape = _cut(shape, tm.name, tm.factor)
        elif tm.is_stack:
            if ratio % tm.factor == 0 and shape.z % tm.factor == 0:
                ratio //= tm.factor
                shape = tm.apply(shape)
        elif tm.name == "buda_unpad":
            shape = replace(shape, rt=max(1, shape.rt - tm.rt), ct=max(1, shape.ct - tm.ct))
        else:
            shape = tm.apply(shape)
    return shape


def _cut(shape: TensorShape, name: str, factor: int) -> TensorShape:
    """Returns the shape after a slice, cut down to single tiles if it does not divide."""
    size = shape.rt if name == "vslice" else shape.ct
    return Tm(name, factor if size % factor == 0 else size).apply(shape)
