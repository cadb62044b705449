"""When the ops of an epoch run for one input: data flows from op to op, and each waits for operands and for room.

An op advances in equal steps. A step needs its share of each operand, and room in the output buffer for what it makes:
the buffer frees what all readers have read. The result of a product or a reduction leaves it a macro block at a time,
that of an elementwise op as it is made. A reader on a cut edge waits for all of its operand in DRAM.

Where data forks and joins again, the short branch must hold what the long one takes in before it puts anything out.
Otherwise the fork stops for want of room and the long branch starves: it slows down, or nothing ever moves again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

from opscope.compiler.buda.balancer.op_model import OpModel
from opscope.compiler.buda.graph import BudaGraph, Edge, Node

STEPS = 64
"""Steps of an op, so that times are right within a 64th of its cycles."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Flow:
    """What the ops of one epoch did for one input."""

    ends: Mapping[str, float]
    """Op -> the cycle at which it ended, without those that never did."""
    stuck: tuple[str, ...] = ()
    """Ops that wait for each other for ever."""
    full: tuple[Edge, ...] = ()
    """Edges that made an op wait for room while their reader waited for data from elsewhere; those of ops that are
    stuck first."""

    @property
    def cycles(self) -> float:
        """Cycles until the last op ended; infinite if one never does."""
        return inf if self.stuck else max(self.ends.values(), default=0.0)


def flow(
    graph: BudaGraph,
    models: Mapping[str, OpModel],
    ops: Sequence[str],
    cuts: Collection[Edge] = (),
    room: Mapping[Edge, float] | None = None,
) -> Flow:
    """Runs the ops of one epoch for one input; what comes from elsewhere is there from the start.

    `room` sets how much of the tensor an edge may hold, as a share, in place of its producer's output buffer.
    """
    return _Epoch(graph, models, ops, cuts, room or {}).run()


def joins(graph: BudaGraph, ops: Sequence[str]) -> bool:
    """Whether data forks and joins again among these ops; if not, nothing can starve."""
    inside = set(ops)
    links = {(e.producer, e.consumer) for name in ops for e in graph.operands(name) if e.producer in inside}
    # A forest has as many links as nodes, less one for each tree.
    groups = {name: name for name in ops}

    def group(name: str) -> str:
        while groups[name] != name:
            groups[name] = groups[groups[name]]
            name = groups[name]
        return name

    for a, b in links:
        if (first := group(a)) == (second := group(b)):
            return True
        groups[first] = second
    return False


def room_of(model: OpModel) -> float:
    """Returns the share of its result that an op's output buffer holds."""
    return model.output.factor / model.block.t


def _made(node: Node, model: OpModel) -> tuple[float, ...]:
    """Returns, after each number of steps, the share of the result that is out."""
    shares = tuple(step / STEPS for step in range(STEPS + 1))
    if not node.spec.is_matmul and node.spec.type != "reduce":
        return shares
    pieces = model.block.t
    return tuple(int(share * pieces + ROUNDING) / pieces for share in shares)


def _reads_again(node: Node, model: OpModel, edge: Edge) -> bool:
    """Whether each piece of the result takes all of the operand: a product's other side."""
    stream = model.stream
    if not node.spec.is_matmul or node.spec.sparse is not None or stream.none or stream.z_major:
        return False
    return edge.operand == (1 if stream.by_rows else 0)


def _needs(node: Node, model: OpModel, edge: Edge) -> tuple[float, ...]:
    """Returns the share of an operand that each step needs."""
    stream = model.stream
    if _reads_again(node, model, edge):
        return tuple(min(1.0, (step + 1) / STEPS * stream.t) for step in range(STEPS))
    if node.spec.sparse is not None and not stream.none:
        # A piece of the picker picks from the image down to some row; pieces of columns pick from all of it.
        reach = node.spec.pattern.reach(stream.r, stream.z_major) if stream.by_rows else (1.0,) * stream.t
        return tuple(reach[step * stream.t // STEPS] for step in range(STEPS))
    return tuple((step + 1) / STEPS for step in range(STEPS))


def _steps_to_free(node: Node, model: OpModel, edge: Edge, share: float) -> int:
    """Returns the steps after which the first `share` of an operand is needed no more."""
    if share <= ROUNDING:
        return 0
    if _reads_again(node, model, edge):
        share = (share + model.stream.t - 1) / model.stream.t
    return min(STEPS, ceil(share * STEPS - ROUNDING))


@dataclass
class _Stage:
    """One op as it runs."""

    name: str
    each: float
    """Cycles of a step."""
    made: tuple[float, ...]
    operands: list[tuple[_Stage, list[int]]] = field(default_factory=list)
    """Ops of the epoch that it reads, and how many steps of theirs each of its own needs."""
    users: list[tuple[_Stage, list[int], Edge]] = field(default_factory=list)
    """Ops that read its output buffer, and how many steps of theirs must have made room for each of its own."""
    around: list[_Stage] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    """The cycle at which each step ended."""
    held_up: dict[Edge, None] = field(default_factory=dict)
    """Edges whose reader came late for its room, while that reader waited for data."""

    def advance(self) -> bool:
        """Runs as many steps as there are operands and room for; returns whether there were any."""
        before = len(self.ends)
        while len(self.ends) < STEPS:
            step = len(self.ends)
            data = self.data(step)
            room = self.room(step)
            if data is None or room is None:
                break
            ready = max(data, self.ends[-1] if self.ends else 0.0)
            if room > ready:
                for reader, needed, edge in self.users:
                    last = needed[step] - 1
                    if last >= 0 and reader.ends[last] == room:
                        self.held_up[edge] = None
            self.ends.append(max(ready, room) + self.each)
        return len(self.ends) > before

    def data(self, step: int) -> float | None:
        """Returns the cycle from which all operands of a step are there; None if one is not yet made."""
        ready = 0.0
        for source, needed in self.operands:
            last = needed[step] - 1
            if last >= len(source.ends):
                return None
            if last >= 0:
                ready = max(ready, source.ends[last])
        return ready

    def room(self, step: int) -> float | None:
        """Returns the cycle from which there is room for a step; None if readers must move first."""
        ready = 0.0
        for reader, needed, _ in self.users:
            last = needed[step] - 1
            if last >= len(reader.ends):
                return None
            if last >= 0:
                ready = max(ready, reader.ends[last])
        return ready

    def full(self) -> list[Edge]:
        """Returns the edges for whose room a stuck op waits while their reader waits for data."""
        step = len(self.ends)
        return [
            edge
            for reader, needed, edge in self.users
            if needed[step] > len(reader.ends) and reader.data(len(reader.ends)) is None
        ]


class _Epoch:
    """The ops of an epoch, each as far as it has got."""

    def __init__(
        self,
        graph: BudaGraph,
        models: Mapping[str, OpModel],
        ops: Sequence[str],
        cuts: Collection[Edge],
        room: Mapping[Edge, float],
    ) -> None:
        cut = set(cuts)
        self.stages = {
            name: _Stage(name, models[name].cycles / STEPS, _made(graph.node(name), models[name])) for name in ops
        }
        for name in ops:
            reader, node, model = self.stages[name], graph.node(name), models[name]
            for edge in graph.operands(name):
                source = self.stages.get(edge.producer)
                if source is None:
                    continue
                source.around.append(reader)
                reader.around.append(source)
                if edge in cut:
                    reader.operands.append((source, [STEPS] * STEPS))
                    continue
                shares = _needs(node, model, edge)
                reader.operands.append((source, [bisect_left(source.made, share - ROUNDING) for share in shares]))
                # A step makes a 64th at least, so that a smaller buffer counts as two such.
                spare = max(room.get(edge, room_of(models[edge.producer])), 2 / STEPS)
                if spare < 1:
                    needed = [_steps_to_free(node, model, edge, made - spare) for made in source.made[1:]]
                    source.users.append((reader, needed, edge))

    def run(self) -> Flow:
        """Lets every op advance until none can."""
        waiting = deque(self.stages.values())
        queued = set(self.stages)
        while waiting:
            stage = waiting.popleft()
            queued.discard(stage.name)
            if stage.advance():
                for other in stage.around:
                    if other.name not in queued and len(other.ends) < STEPS:
                        queued.add(other.name)
                        waiting.append(other)
        ends = {name: stage.ends[-1] for name, stage in self.stages.items() if len(stage.ends) == STEPS}
        stuck = [stage for name, stage in self.stages.items() if name not in ends]
        full = [edge for stage in stuck for edge in stage.full()]
        late = [edge for stage in self.stages.values() for edge in stage.held_up]
        return Flow(ends, tuple(stage.name for stage in stuck), tuple(dict.fromkeys((*full, *late))))
