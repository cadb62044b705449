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


class Joint:
    """An edge between two ops, with what of it every pair of their models is asked about."""

    def __init__(self, graph: BudaGraph, edge: Edge) -> None:
        self._graph, self._edge = graph, edge
        spec = graph.node(edge.consumer).spec
        self._into_matmul, self._into_sparse = spec.is_matmul, spec.sparse is not None
        self._dense = spec.is_matmul and spec.sparse is None
        self._from_sparse = graph.node(edge.producer).spec.sparse is not None
        self._transposed = edge.has_tm("transpose")
        self._z_to_rows = _turns_z_to_rows(graph, edge)
        # The consumer's input counts z after streaming: more of it than pieces means that the tensor has z of its own.
        self._has_z = graph.operand_shape(edge).z > 1
        self._order = graph.read_order(edge)
        self._pieces: dict[StreamFactor, TensorShape] = {}

    def failure(self, producer: StreamFactor, consumer: End) -> EdgeFailureReason | None:
        """Returns the reason why the two do not fit together; None if they do."""
        produced, taken = producer, consumer.stream
        if produced.none and taken.none:
            return None
        if self._transposed:
            produced = produced.transposed
        if not _compatible(produced, taken, self._into_sparse, self._z_to_rows):
            return EdgeFailureReason.TStreamIncompatibleConsumer
        if not _directions_fit(produced, taken, self._has_z, self._z_to_rows):
            return EdgeFailureReason.TStreamIllegalTStreamDir
        if not produced.none and not _blocks_fit(self._piece(producer), produced, consumer, self._order, self._dense):
            return EdgeFailureReason.TStreamBlockIncompatible
        if not produced.none and taken.none and not producer.follows(self._order):
            return EdgeFailureReason.TStreamAntiUblockOrderStacking
        operand = self._edge.operand
        if self._dense and not produced.none and not taken.none and taken.by_rows != (operand == 0) and operand < 2:
            return EdgeFailureReason.TStreamMatmulStreamingSide
        rows, cols = produced.r // taken.r, produced.c // taken.c
        if not (self._into_matmul and operand == 1) and rows and not either_divides(rows, consumer.grid.r):
            return EdgeFailureReason.TStreamNotDivisableRow
        if not (self._into_matmul and operand == 0) and cols and not either_divides(cols, consumer.grid.c):
            return EdgeFailureReason.TStreamNotDivisableColumn
        if produced.none and not taken.none and self._from_sparse and self._dense:
            return EdgeFailureReason.ConvSliceStackMatmulStreamingHang
        return None

    def _piece(self, stream: StreamFactor) -> TensorShape:
        if stream not in self._pieces:
            self._pieces[stream] = piece_shape(self._graph, self._edge, stream)
        return self._pieces[stream]


def edge_failure(graph: BudaGraph, edge: Edge, producer: StreamFactor, consumer: End) -> EdgeFailureReason | None:
    """Returns the reason why the two do not fit together; None if they do. Both ends of the edge are ops."""
    return Joint(graph, edge).failure(producer, consumer)


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


def _blocks_fit(piece: TensorShape, produced: StreamFactor, consumer: End, order: str, dense: bool) -> bool:
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
