"""Fuses elementwise ops that feed each other, so that one set of cores does them (tt-buda: csrc/passes/fuse_ops.cpp).

From each op, in the graph's order, a group grows along edges up and down, but not below an exponential, since a
softmax would compute it twice. The fused op makes the result of the group's first op that others read; the group keeps
only the ops that lead to it. Groups of two ops and more become nodes `_fused_op_0` and so on; `fused_steps.py` orders
their steps.

TT-Buda's limits: at most 8 operands and 16 edges in and out of the group; one epoch type, format and fidelity; a
tile_broadcast only on the second operand of an add, subtract or multiply, whose operands are swapped if that helps; no
reduction, product or splice; no op at which an epoch or a chip breaks. Our limits: results of one group have one shape
(so that grids stay free; TT-Buda also repeats a row or a column inside), and a group has at most 32 steps, which must
fit in a core's 56 KiB of programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from opscope.compiler.buda.fused import MOST_INPUTS
from opscope.compiler.buda.fused_steps import operands_in_order, repeats_last, steps_of_group
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, OpSpec
from opscope.compiler.buda.graph_to_program import KERNELS

MOST_EDGES = 16
MOST_STEPS = 32
MOST_INTERMEDIATES = 8
BROADCASTS_INTO = frozenset({"add", "subtract", "multiply"})
"""Ops whose second operand may be one row or column of a tile, repeated while it is unpacked."""


def fuse_ops(graph: BudaGraph, arch: str, apart: Collection[str] = ()) -> BudaGraph:
    """Returns the graph with fused ops; those named in `apart` stay as they are."""
    groups = list(_groups(graph, frozenset(apart)))
    return _replaced(graph, groups, arch) if groups else graph


@dataclass
class _Group:
    """A group of ops that will become one, with its inputs and outputs."""

    graph: BudaGraph
    members: dict[str, Node] = field(default_factory=dict)
    inputs: int = 0
    outputs: int = 0

    def _counts(self, node: Node) -> tuple[int, int]:
        """Returns the inputs and outputs that the group would have with the node."""
        into, out = self.graph.operands(node.name), self.graph.users(node.name)
        above = sum(edge.producer in self.members for edge in into)
        below = sum(edge.consumer in self.members for edge in out)
        return self.inputs + len(into) - above - below, self.outputs + len(out) - below - above

    def takes(self, node: Node) -> bool:
        """Whether the node may join: it keeps the limits of cores, and equals the others in what steps share."""
        inputs, outputs = self._counts(node)
        if inputs > MOST_INPUTS or inputs + outputs > MOST_EDGES or len(self.members) >= MOST_STEPS:
            return False
        if not _fusable(self.graph, node):
            return False
        for edge in self.graph.operands(node.name):
            if edge.producer in self.members and not _stays_in_place(edge):
                return False
        if any(e.consumer in self.members and not _stays_in_place(e) for e in self.graph.users(node.name)):
            return False
        return not self.members or _shared(node) == _shared(next(iter(self.members.values())))

    def add(self, node: Node) -> None:
        """Adds the node."""
        self.inputs, self.outputs = self._counts(node)
        self.members[node.name] = node

    def settle(self, order: dict[str, int]) -> tuple[Node, ...]:
        """Returns the ops that lead to the first result that others read, in the graph's order; no other leaves it."""
        left = sorted(self.members, key=lambda name: order[name])
        while True:
            kept = frozenset(left)
            first = next(name for name in left if any(e.consumer not in kept for e in self.graph.users(name)))
            cone = self._cone(first, kept)
            if len(cone) == len(left):
                return tuple(self.members[name] for name in left)
            left = [name for name in left if name in cone]

    def _cone(self, name: str, within: Collection[str]) -> set[str]:
        producers, open_ = {name}, [name]
        while open_:
            for edge in self.graph.operands(open_.pop()):
                if edge.producer in within and edge.producer not in producers:
                    producers.add(edge.producer)
                    open_.append(edge.producer)
        return producers


def _fusable(graph: BudaGraph, node: Node) -> bool:
    spec = node.op
    if spec is None or spec.type not in KERNELS or spec.gradient or spec.padding_nop or not graph.users(node.name):
        return False
    operands = operands_in_order(graph, node)
    if not all(repeats_last(edge.tms) for edge in operands):
        return False
    repeated = [i for i, edge in enumerate(operands) if edge.has_tm("tile_broadcast")]
    return not repeated or (repeated == [1] and spec.type in BROADCASTS_INTO)


def _stays_in_place(edge: Edge) -> bool:
    """Whether the edge moves nothing between tiles."""
    return all(tm.name == "tile_broadcast" for tm in edge.tms)


def _shared(node: Node) -> tuple:
    """Returns what all steps of a fused op share."""
    spec = node.spec
    held_as = spec.intermediate_format or node.data_format
    return node.shape, node.data_format, spec.epoch_type, spec.math_fidelity, spec.acc_format, held_as


def _groups(graph: BudaGraph, apart: frozenset[str]) -> Iterator[tuple[Node, ...]]:
    order = {node.name: i for i, node in enumerate(graph.nodes)}
    tried = set(apart)
    for node in graph.ops:
        if node.name in tried or not _fusable(graph, node):
            continue
        while node.name not in tried:
            group = _Group(graph)
            _grow(group, node, tried)
            if not group.members:  # Alone, it already has more edges than a group may have.
                tried.add(node.name)
                break
            members = group.settle(order)
            tried |= {member.name for member in members}
            if len(members) > 1:
                yield members


def _grow(group: _Group, start: Node, tried: Collection[str]) -> None:
    """Grows the group depth first, producers before users, as far as its limits allow."""
    stack: list[Iterator[str]] = [iter((start.name,))]
    while stack:
        name = next(stack[-1], None)
        if name is None:
            stack.pop()
            continue
        node = group.graph.node(name)
        if name in tried or name in group.members or node.op is None or not group.takes(node):
            continue
        group.add(node)
        stack.append(_neighbours(group.graph, node))


def _neighbours(graph: BudaGraph, node: Node) -> Iterator[str]:
    yield from (edge.producer for edge in graph.operands(node.name) if _stays_in_place(edge))
    if node.spec.type != "exp":
        yield from (edge.consumer for edge in graph.users(node.name))


def _replaced(graph: BudaGraph, groups: list[tuple[Node, ...]], arch: str) -> BudaGraph:
    into: dict[str, Node] = {}
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for members in groups:
        fused, entering = steps_of_group(graph, members, dest_first=arch == "grayskull")
        if fused.intermediates > MOST_INTERMEDIATES:
            continue
        last = members[-1]
        spec = OpSpec(
            "fused_op",
            last.spec.math_fidelity,
            last.spec.acc_format,
            last.spec.intermediate_format,
            epoch_type=last.spec.epoch_type,
            fused=fused,
        )
        fused_node = replace(last, name=f"_fused_op_{len(nodes)}", op=spec)
        nodes[last.name] = fused_node
        into.update(dict.fromkeys((member.name for member in members), fused_node))
        edges += [Edge(e.producer, fused_node.name, i, tms) for i, (e, tms) in enumerate(entering)]
    kept = tuple(nodes.get(n.name, n) for n in graph.nodes if n.name not in into or n.name in nodes)
    edges += [e for e in graph.edges if e.consumer not in into]
    made_by = {name: node.name for name, node in into.items()}
    renamed = (replace(e, producer=made_by.get(e.producer, e.producer)) for e in edges)
    return BudaGraph(graph.name, kept, tuple(renamed))


__all__ = ["fuse_ops"]
