"""Puts buffers where data forks and joins again, so that no branch starves; nops where a fork has too many readers.

As in TT-Buda (fork-join buffering; fork nops), on the plan as it was placed. For an edge whose short branch holds too
little (`pipeline.py`), in this order: a larger output buffer in what is left of L1; a nop on free cores, whose output
buffer holds the rest; a queue in DRAM. A nop copies, so that no bit changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from math import inf

from opscope.compiler.buda.balancer.constraints import End, edge_failure
from opscope.compiler.buda.balancer.enumerate import consumes_z_major
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.balancer.policies import Choice
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, NodeKind, OpSpec
from opscope.compiler.buda.pipeline import Flow, flow, joins, room_of
from opscope.compiler.buda.placer.epochs import CoreGrid, Epoch, OpToPlace, Placement, try_place
from opscope.compiler.buda.plan import BudaPlan, Buffering

MOST_FORKS = 8
"""Most readers of an op (tt-buda: balancer/balancer_utils.hpp, EdgeCost::kMaxDRAMOutQueues)."""
STARVED = 1.1
"""An epoch in which one input takes this much longer than with room for everything has a branch that starves."""
ROUNDS = 3
"""How often an epoch is looked at again, since a nop also takes what it holds."""
PARTS = 8
"""Parts of a tensor in which the room of an edge is measured out; less than a macro block is none."""
WHOLE = 2.0
"""Room for the whole of a tensor, twice."""


def split_forks(graph: BudaGraph) -> BudaGraph:
    """Returns the graph with nops, each of which serves some readers of an op that has more than `MOST_FORKS`."""
    while (node := next((node for node in graph.ops if len(_readers(graph, node)) > MOST_FORKS), None)) is not None:
        readers = _readers(graph, node)
        # With n nops in their place, MOST_FORKS - n readers stay; each nop serves as many others, or is split in turn.
        nops = min(MOST_FORKS, -(-(len(readers) - MOST_FORKS) // (MOST_FORKS - 1)))
        moved = readers[MOST_FORKS - nops :]
        each = max(MOST_FORKS, -(-len(moved) // nops))
        for i in range(nops):
            served = moved[i * each : (i + 1) * each]
            graph = with_nop(graph, f"fork_nop_{i}_{node.name}", served)
    return graph


def _readers(graph: BudaGraph, node: Node) -> list[Edge]:
    return [edge for edge in graph.users(node.name) if graph.node(edge.consumer).op is not None]


def with_nop(graph: BudaGraph, name: str, edges: list[Edge], kind: str = "nop") -> BudaGraph:
    """Returns the graph with a nop between a producer and the consumers of `edges`, which keep their TMs.

    `kind` is its type: one of the ops that copy.
    """
    source = graph.node(edges[0].producer)
    like = source.op or graph.node(edges[0].consumer).spec
    spec = OpSpec(kind, like.math_fidelity, like.acc_format, epoch_type=like.epoch_type)
    nop = Node(name, NodeKind.OP, source.shape, source.data_format, spec, source.elements)
    first = {edge.consumer for edge in edges}
    at = next(i for i, node in enumerate(graph.nodes) if node.name in first)
    # The nop takes the place of the first edge, so that the producer still writes in the order of its first reader.
    moved = []
    for edge in graph.edges:
        if edge == edges[0]:
            moved.append(Edge(source.name, name))
        moved.append(replace(edge, producer=name) if edge in edges else edge)
    return BudaGraph(graph.name, (*graph.nodes[:at], nop, *graph.nodes[at:]), tuple(moved))


def buffered(plan: BudaPlan, options: LegalizerOptions) -> BudaPlan:
    """Returns the plan with buffers where a branch would starve, and nops in place of cuts where they stream."""
    state = _State(plan, options)
    known: dict[Hashable, list[Given]] = {}
    for number in range(len(plan.epochs)):
        state.join_cuts(number)
        if not joins(state.plan.graph, state.ops(number)):
            continue
        likeness = state.likeness(number)
        if likeness in known:
            state.feed_alike(number, known[likeness])
        else:
            known[likeness] = state.feed(number)
    return state.plan


Given = tuple[int, int, int, float]
"""Room that an edge got: numbers of its producer and consumer in their epoch at that time, its operand, the share."""


@dataclass
class _State:
    """A plan while it gets its buffers."""

    plan: BudaPlan
    options: LegalizerOptions

    def ops(self, number: int) -> list[str]:
        """The ops of an epoch."""
        return [placement.op.name for placement in self.plan.epochs[number].placements]

    def models(self) -> dict[str, OpModel]:
        """The model of each op."""
        return {name: choice.model for name, choice in self.plan.choices.items()}

    def flow(self, number: int, room: dict[Edge, float] | None = None) -> Flow:
        """The epoch for one input."""
        return flow(self.plan.graph, self.models(), self.ops(number), self.plan.cuts, room)

    def join_cuts(self, number: int) -> None:
        """Puts a nop on each cut edge inside an epoch if its ends stream through one and the input is faster."""
        inside = set(self.ops(number))
        for edge in self.plan.cuts:
            if edge.producer not in inside or edge.consumer not in inside:
                continue
            before = self.plan
            cycles = self.flow(number).cycles
            self.plan = replace(before, cuts=tuple(cut for cut in before.cuts if cut != edge))
            if not self.add_nop(number, edge, 0.0, "streams where the two ops do not") or not self.improves(
                number, cycles
            ):
                self.plan = before

    def improves(self, number: int, cycles: float) -> bool:
        """Whether the epoch now takes fewer cycles, apart from branches that would starve and get buffers next."""
        everything = {edge: WHOLE for name in self.ops(number) for edge in self.plan.graph.users(name)}
        return self.flow(number, everything).cycles < cycles

    def likeness(self, number: int) -> Hashable:
        """Returns all of an epoch that decides about its buffers: repeated layers make epochs that are alike."""
        graph, cuts = self.plan.graph, set(self.plan.cuts)
        place = {name: i for i, name in enumerate(self.ops(number))}
        alike = []
        for placed in self.plan.epochs[number].placements:
            node = graph.node(placed.op.name)
            edges = tuple(
                (place.get(edge.producer, -1), edge.operand, edge.tms, edge in cuts)
                for edge in graph.operands(node.name)
            )
            model = self.plan.choices[node.name].model
            order = graph.ublock_orders[node.name]
            alike.append((model, placed.row, placed.col, placed.grid, node.shape, node.data_format, order, edges))
        return tuple(alike)

    def feed_alike(self, number: int, feeds: list[Given]) -> None:
        """Gives an epoch the room that one like it has got."""
        for producer, consumer, operand, share in feeds:
            ops = self.ops(number)
            edges = self.plan.graph.operands(ops[consumer])
            self.give(number, next(e for e in edges if (e.producer, e.operand) == (ops[producer], operand)), share)

    def feed(self, number: int) -> list[Given]:
        """Gives room to every edge of an epoch that makes another branch starve; returns what it gave, in order."""
        feeds: list[Given] = []

        def give(edge: Edge, share: float) -> None:
            ops = self.ops(number)
            feeds.append((ops.index(edge.producer), ops.index(edge.consumer), edge.operand, share))
            self.give(number, edge, share)

        for _ in range(ROUNDS):
            everything = {edge: WHOLE for name in self.ops(number) for edge in self.plan.graph.users(name)}
            goal = self.flow(number, everything).cycles * STARVED
            room = self._culprits(number, goal)
            for edge in tuple(room):
                room[edge] = self._share(number, edge, room, goal)
                if room[edge] > room_of(self.plan.choices[edge.producer].model):
                    give(edge, room[edge])
            if not room:
                return feeds
        # What buffers and nops did not set free goes through DRAM: each such edge waits for nothing any more.
        while (now := self.flow(number)).stuck and now.full:
            give(now.full[0], inf)
        return feeds

    def _culprits(self, number: int, goal: float) -> dict[Edge, float]:
        """Returns edges that need more room, all of it for now, so that with it the epoch reaches its goal."""
        room: dict[Edge, float] = {}
        while (now := self.flow(number, room)).cycles > goal:
            late = [edge for edge in now.full if edge not in room]
            if not late:
                break
            # A stuck epoch shows its culprits first; one that is only slow shows all that were ever late.
            room |= dict.fromkeys(late if now.stuck else late[:1], WHOLE)
        return room

    def _share(self, number: int, edge: Edge, room: dict[Edge, float], goal: float) -> float:
        """Returns the smallest share of its tensor that an edge must hold while the others have their `room`."""
        model = self.plan.choices[edge.producer].model
        block = model.block
        eighths = -(-block.t // PARTS)
        sizes = [model.output.factor, *range(model.output.factor + eighths, block.t, eighths), block.t]
        low, high = 0, len(sizes) - 1
        while low < high:
            middle = (low + high) // 2
            if self.flow(number, {**room, edge: sizes[middle] / block.t}).cycles <= goal:
                high = middle
            else:
                low = middle + 1
        return sizes[low] / block.t

    def give(self, number: int, edge: Edge, share: float) -> None:
        """Makes an edge hold that share of its tensor: in the producer, in a nop, or in DRAM."""
        choice = self.plan.choices[edge.producer]
        model = choice.model
        larger = with_room(model, share, self.plan.budget.l1_usable) if share < inf else None
        if larger is not None and not model.spec.gradient:
            why = f"holds {larger.output.l1_size_tiles} tiles a core, not {model.output.l1_size_tiles}"
            note = Buffering("buffer", edge.producer, edge, why)
            choices = {**self.plan.choices, edge.producer: Choice(larger, choice.why)}
            self.plan = replace(self.plan, choices=choices, buffering=(*self.plan.buffering, note))
            return
        missing = share - room_of(model)
        if share == inf or not self.add_nop(number, edge, missing, f"holds {missing:.0%} of the tensor"):
            note = Buffering("queue", f"e2e_{edge.producer}_0", edge, "fits no buffer and no free core")
            self.plan = replace(self.plan, cuts=(*self.plan.cuts, edge), buffering=(*self.plan.buffering, note))

    def add_nop(self, number: int, edge: Edge, share: float, why: str) -> bool:
        """Puts a nop on an edge, on free cores of the epoch; returns whether there is one that fits."""
        plan = self.plan
        if consumes_z_major(plan.graph, edge):
            return False
        count = sum(note.kind == "nop" for note in plan.buffering)
        name = f"buffer_{count}_{edge.producer}_{edge.consumer}"
        graph = with_nop(plan.graph, name, [edge])
        legal = legalize(graph, name, plan.budget, self.options)
        before, after = graph.operands(name)[0], graph.users(name)[0]
        epoch = plan.epochs[number]
        models = [candidate.models[0] for candidate in legal.candidates if candidate.models]
        fitting = sorted(
            self._fitting(graph, before, after, models, share, epoch.cycles),
            key=lambda model: (model.grid.volume, model.cycles),
        )
        for model in fitting:
            placement = _place(plan, epoch, name, model)
            if placement is not None:
                at = next(i for i, p in enumerate(epoch.placements) if p.op.name == edge.consumer)
                placements = (*epoch.placements[:at], placement, *epoch.placements[at:])
                epochs = (*plan.epochs[:number], replace(epoch, placements=placements), *plan.epochs[number + 1 :])
                choice = Choice(model, f"{why}, between {edge.producer} and {edge.consumer}")
                self.plan = replace(
                    plan,
                    graph=graph,
                    legal={**plan.legal, name: legal},
                    choices={**plan.choices, name: choice},
                    epochs=epochs,
                    buffering=(*plan.buffering, Buffering("nop", name, edge, why)),
                )
                return True
        return False

    def _fitting(
        self, graph: BudaGraph, before: Edge, after: Edge, models: list[OpModel], share: float, most_cycles: int
    ) -> Iterator[OpModel]:
        """Yields models of a nop that stream on both sides, with room for that share, no slower than `most_cycles`."""
        source = self.plan.choices[before.producer].model
        reader = self.plan.choices[after.consumer].model
        for model in models:
            larger = with_room(model, share, self.plan.budget.l1_usable)
            if (
                larger is not None
                and model.cycles <= most_cycles
                and edge_failure(graph, before, source.stream, End.of(model, 0)) is None
                and edge_failure(graph, after, model.stream, End.of(reader, after.operand)) is None
            ):
                yield larger


def with_room(model: OpModel, share: float, l1_usable: int) -> OpModel | None:
    """Returns the model with an output buffer for that share of its result, in pairs of blocks; None if L1 is full."""
    factor = max(model.output.factor, 2 * -(-round(share * model.block.t, 6) // 2))
    larger = model.holding(int(factor))
    return larger if larger.l1_bytes <= l1_usable else None


def _place(plan: BudaPlan, epoch: Epoch, name: str, model: OpModel) -> Placement | None:
    """Returns a place for an op on the free cores of an epoch."""
    cores = CoreGrid(Grid(plan.budget.grid.r, plan.budget.grid.c), epoch.chip, epoch.number)
    for placement in epoch.placements:
        cores.take(placement)
    return try_place(OpToPlace(name, model.grid, epoch.kind, model.cycles), cores, transpose=True)
