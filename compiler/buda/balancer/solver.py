"""The solver: tracks which op models of each op are still possible, given the choices so far and the edges.

Domains are bit masks over each op's models. Along an edge only the *ends* of models matter, of which there are few: the
relation of an edge is computed once per pair of kinds of op, so that repeated layers cost nothing. An edge that would
leave an op without any model is cut: its data then waits in a DRAM queue, which fits every model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from opscope.compiler.buda.balancer.constraints import End, Joint
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.graph import BudaGraph, Edge
from opscope.compiler.errors import CompilerInputError

Alike = TypeVar("Alike", bound=Hashable)


@dataclass(frozen=True)
class Relation:
    """For each end of an edge: groups of interchangeable models, each with the models that fit on the other side."""

    forward: tuple[tuple[int, int], ...]
    """(mask of producer models, mask of consumer models that fit)."""
    backward: tuple[tuple[int, int], ...]


class Solver:
    """Keeps the domains of all ops arc-consistent."""

    def __init__(
        self, graph: BudaGraph, models: Mapping[str, tuple[OpModel, ...]], in_dram: Iterable[Edge] = ()
    ) -> None:
        """The edges `in_dram` are cut from the start."""
        self.graph = graph
        self.models = dict(models)
        self.cuts: list[Edge] = list(in_dram)
        """Edges whose data waits in DRAM, in the order in which they were cut."""
        self._domains = {name: (1 << len(legal)) - 1 for name, legal in self.models.items()}
        self._edges: dict[str, list[Edge]] = {name: [] for name in self.models}
        self._undo: list[dict[str, int] | Edge] = []
        """The former domains and cut edges to restore, newest last."""
        self._relations: dict[Hashable, Relation] = {}
        self._of_edge: dict[Edge, Relation] = {}
        for node in graph.ops:
            for edge in graph.operands(node.name):
                source = graph.node(edge.producer).op
                # Between forward, backward and optimizer ops data waits in DRAM, whatever their models are.
                if source is not None and source.epoch_type == node.spec.epoch_type and edge not in self.cuts:
                    self._add(edge)

    def at(self, name: str) -> tuple[OpModel, ...]:
        """Returns the models of an op that are still possible, in the order of enumeration."""
        domain = self._domains[name]
        return tuple(model for i, model in enumerate(self.models[name]) if domain >> i & 1)

    def domain(self, name: str) -> int:
        """Returns the same as a bit mask over all models of the op."""
        return self._domains[name]

    def set(self, name: str, model: OpModel) -> None:
        """Chooses a model that is still possible. Raises CompilerInputError for another."""
        index = next((i for i, candidate in enumerate(self.models[name]) if candidate is model), None)
        if index is None or not self._domains[name] >> index & 1:
            raise CompilerInputError(f"{name}: expected one of {len(self.at(name))} possible op models, got another")
        while True:
            trail = {name: self._domains[name]}
            self._domains[name] = 1 << index
            failed = self._propagate([(edge, name) for edge in self._edges[name]], trail)
            if failed is None:
                self._undo.append(trail)
                return
            self._domains.update(trail)
            self._cut(failed)

    def mark(self) -> int:
        """Returns a place in the history of choices that `rewind` goes back to."""
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        """Undoes every choice and every cut since `mark`."""
        while len(self._undo) > mark:
            step = self._undo.pop()
            if isinstance(step, Edge):
                self.cuts.remove(step)
                for end in (step.producer, step.consumer):
                    self._edges[end].append(step)
            else:
                self._domains.update(step)

    def _add(self, edge: Edge) -> None:
        self._of_edge[edge] = self._relation(edge)
        for end in (edge.producer, edge.consumer):
            self._edges[end].append(edge)
        trail: dict[str, int] = {}
        if self._propagate([(edge, edge.producer), (edge, edge.consumer)], trail) is not None:
            self._domains.update(trail)
            self._cut(edge)

    def _cut(self, edge: Edge) -> None:
        self.cuts.append(edge)
        self._undo.append(edge)
        for end in (edge.producer, edge.consumer):
            self._edges[end].remove(edge)

    def _propagate(self, changed: list[tuple[Edge, str]], trail: dict[str, int]) -> Edge | None:
        """Removes models without a partner until nothing changes; returns the edge that would empty a domain, or None.

        `trail` gets the former domain of each op that is changed.
        """
        queue = deque(changed)
        while queue:
            edge, changed_op = queue.popleft()
            other = edge.consumer if changed_op == edge.producer else edge.producer
            relation = self._of_edge[edge]
            groups = relation.forward if changed_op == edge.producer else relation.backward
            before, allowed = self._domains[other], 0
            for members, partners in groups:
                if members & self._domains[changed_op]:
                    allowed |= partners
            after = before & allowed
            if not after:
                return edge
            if after != before:
                trail.setdefault(other, before)
                self._domains[other] = after
                queue.extend((neighbour, other) for neighbour in self._edges[other])
        return None

    def _relation(self, edge: Edge) -> Relation:
        graph, producers, consumers = self.graph, self.models[edge.producer], self.models[edge.consumer]
        source, target = graph.node(edge.producer), graph.node(edge.consumer)
        # Models of equal ops are the same objects, so that their tuples stand for the ops themselves.
        z = graph.operand_shape(edge).z
        operands = tuple((e.tms, graph.node(e.producer).kind) for e in graph.operands(edge.consumer))
        key = (
            id(producers[0]),
            id(consumers[0]),
            edge.operand,
            edge.tms,
            source.shape,
            source.op,
            target.op,
            z,
            graph.read_order(edge),
            operands,
        )
        if key not in self._relations:
            self._relations[key] = self._work_out(edge, producers, consumers)
        return self._relations[key]

    def _work_out(self, edge: Edge, producers: tuple[OpModel, ...], consumers: tuple[OpModel, ...]) -> Relation:
        made = _groups(model.stream for model in producers)
        taken = _groups(End.of(model, edge.operand) for model in consumers)
        forward = dict.fromkeys(made, 0)
        backward = dict.fromkeys(taken, 0)
        joint = Joint(self.graph, edge)
        for start, members in made.items():
            for end, partners in taken.items():
                if joint.failure(start, end) is None:
                    forward[start] |= partners
                    backward[end] |= members
        return Relation(
            tuple((members, forward[start]) for start, members in made.items()),
            tuple((members, backward[end]) for end, members in taken.items()),
        )


def _groups(ends: Iterator[Alike]) -> dict[Alike, int]:
    groups: dict[Alike, int] = {}
    for i, end in enumerate(ends):
        groups[end] = groups.get(end, 0) | 1 << i
    return groups
