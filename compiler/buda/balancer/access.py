"""Whether the TMs around an op let it be cut in time, and how many macro blocks its output must hold for its users.

Slices and stacks change the order in which tiles arrive. Data that arrives piece by piece can only be put in that order
if the pieces divide the slices, or if nothing has to wait.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from opscope.compiler.buda.balancer.shapes import Grid, StreamFactor, either_divides
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, TensorShape, Tm


@dataclass(frozen=True)
class Access:
    """The limits that the neighbours of an op set."""

    buffer_factor: int
    """Macro blocks that the output holds once."""
    operands_stream: bool
    users_stream: bool
    stack_fits_grid: bool


def access(
    graph: BudaGraph, node: Node, grid: Grid, stream: StreamFactor, ublock_order: str, in_dram: Collection[Edge] = ()
) -> Access:
    """Returns what operands and users of `node` allow on a grid, cut by `stream`; data waits on the edges `in_dram`."""
    operands_stream, stack_fits = True, True
    for edge in graph.operands(node.name):
        streams, fits = _operand_access(node, edge, grid, stream)
        operands_stream &= streams
        stack_fits &= fits
    users_stream, factor = True, 1
    for edge in graph.users(node.name):
        if edge in in_dram:
            continue
        streams, needed = _user_access(graph, node, edge, stream, ublock_order)
        users_stream &= streams
        factor = max(factor, needed)
    return Access(factor, operands_stream, users_stream, stack_fits)


def _product(tms: tuple[Tm, ...], name: str) -> int:
    return prod(tm.factor for tm in tms if tm.name == name)


def _operand_access(node: Node, edge: Edge, grid: Grid, stream: StreamFactor) -> tuple[bool, bool]:
    hstack, vstack, hslice, vslice = (_product(edge.tms, name) for name in ("hstack", "vstack", "hslice", "vslice"))
    stacks = hstack * vstack
    if stacks // (hslice * vslice) <= 1:
        return True, True
    right_side = (edge.operand == 0 and stream.by_rows) or (edge.operand == 1 and not stream.by_rows)
    streams = stream.z_major or (
        either_divides(vstack, vslice * stream.r)
        and either_divides(hstack, hslice * stream.c)
        and (not node.spec.is_matmul or right_side)
    )
    # Only plain R counts grid rows here, RZ counts columns: this is TT-Buda's rule, kept to get the same choices.
    return streams, either_divides(stacks, grid.r if stream.dir == "R" else grid.c)


def _user_access(graph: BudaGraph, node: Node, edge: Edge, stream: StreamFactor, ublock_order: str) -> tuple[bool, int]:
    user = graph.node(edge.consumer)
    if user.kind in (NodeKind.INPUT, NodeKind.PARAMETER):
        return False, 1  # A write back to where data comes from must not change shape.
    if user.kind is NodeKind.QUEUE or (user.op is not None and user.op.epoch_type != node.spec.epoch_type):
        return True, 1  # Data waits in DRAM in between.
    streams = True
    shape, slices, stacks, waits_slice, waits_stack = node.shape, 1, 1, False, False
    for tm in edge.tms:
        if tm.is_slice or tm.is_stack:
            waits = _needs_whole_line(tm, shape, stream, ublock_order)
            waits_slice |= waits and tm.is_slice
            waits_stack |= waits and tm.is_stack
            blocked = waits_slice if tm.is_slice else waits_stack
            streams &= stream.z_major or (not blocked and either_divides(tm.factor, stream.t))
            slices *= tm.factor if tm.is_slice else 1
            stacks *= tm.factor if tm.is_stack else 1
        elif tm.name == "transpose":
            streams &= _transpose_streams(graph, edge, shape, stream, ublock_order)
        elif tm.name == "broadcast":
            streams = False
        elif tm.name == "buda_unpad":
            streams &= not ((tm.rt and not stream.by_rows) or (tm.ct and stream.by_rows))
        shape = tm.apply(shape)
    if user.op is not None and user.op.padding_nop:
        streams = False
    if user.kind is NodeKind.OUTPUT and stream.z_major:
        streams = False  # The host cannot undo z-major order.
    stack_factor = max(1, stacks // slices) if waits_stack else 1
    slices_fit = not waits_slice or slices // stacks <= 1
    return streams and stack_factor == 1 and slices_fit, stack_factor


def _needs_whole_line(tm: Tm, shape: TensorShape, stream: StreamFactor, ublock_order: str) -> bool:
    """Whether the TM changes the order of tiles, so that a whole row or column of blocks must be complete first."""
    if tm.name.startswith("h"):
        return (ublock_order == "r" or stream.by_rows) and shape.rt > 1
    return (ublock_order == "c" or not stream.by_rows) and shape.ct > 1


def _transpose_streams(
    graph: BudaGraph, edge: Edge, shape: TensorShape, stream: StreamFactor, ublock_order: str
) -> bool:
    turned = graph.read_order(edge) != ublock_order
    in_order = turned or shape.rt == 1 or shape.ct == 1 or leads_to_output(graph, graph.node(edge.consumer))
    return (stream.r == 1 or stream.c == 1) and in_order


def leads_to_output(graph: BudaGraph, user: Node) -> bool:
    """Whether a node is an output, or an op whose result is nothing but one."""
    ends = [graph.node(edge.consumer).kind for edge in graph.users(user.name)]
    return user.kind is NodeKind.OUTPUT or ends == [NodeKind.OUTPUT]
