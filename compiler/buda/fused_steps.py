"""Orders the steps of a fused op, and chooses where each result waits for its readers.

A result that only the very next step reads stays in Dst, except before a product, a reduction or a maximum, which
cannot read Dst, and after a maximum or a relu; on Grayskull only the first operand can come from Dst. Other results
wait in buffers of one micro block, of which a core has eight; a buffer is reused after its last reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from opscope.compiler.buda.fused import DEST, OUTPUT, Fused, Step
from opscope.compiler.buda.graph import BudaGraph, Edge, Node, Tm

COMMUTES = frozenset({"add", "multiply"})
NOT_FROM_DEST = frozenset({"matmul", "reduce", "maximum"})
"""Steps that cannot read Dst."""
Entering = list[tuple[Edge, tuple[Tm, ...]]]
"""Edges into the fused op, in the order of its operands, each with the TMs that the network does on the way."""


def operands_in_order(graph: BudaGraph, node: Node) -> tuple[Edge, ...]:
    """Returns a node's operands, swapped if only the first is repeated within tiles and their order does not matter."""
    edges = graph.operands(node.name)
    if node.spec.type in COMMUTES and edges[0].has_tm("tile_broadcast") and not edges[1].has_tm("tile_broadcast"):
        return edges[1], edges[0]
    return edges


def repeats_last(tms: tuple[Tm, ...]) -> bool:
    """Whether only repetition follows a repetition within tiles, so that a core may do the latter last."""
    names = [tm.name for tm in tms]
    first = names.index("tile_broadcast") if "tile_broadcast" in names else len(names)
    return all(name in ("tile_broadcast", "broadcast") for name in names[first:])


def steps_of_group(graph: BudaGraph, members: tuple[Node, ...], dest_first: bool) -> tuple[Fused, Entering]:
    """Returns what a fused op of `members`, in the graph's order, does, and the edges into it.

    With `dest_first` only the first operand of a step can come from Dst.
    """
    return _Scheduler(graph, members, dest_first).run()


@dataclass
class _Scheduler:
    graph: BudaGraph
    members: tuple[Node, ...]
    dest_first: bool
    entering: Entering = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def run(self) -> tuple[Fused, Entering]:
        """Adds the steps of the members, in order."""
        names = frozenset(node.name for node in self.members)
        readers = {name: sum(edge.consumer in names for edge in self.graph.users(name)) for name in names}
        buffers: dict[str, int] = {}
        """Member -> the buffer that its result waits in."""
        before: int | None = None
        """The buffer of the step before, if Dst may pass its result on."""
        for node in self.members:
            edges = operands_in_order(self.graph, node)
            inputs, tms, freed = [], [], []
            for edge in edges:
                if edge.producer not in names:
                    inputs.append(f"input{len(self.entering)}")
                    self.entering.append((edge, tuple(tm for tm in edge.tms if tm.name != "tile_broadcast")))
                else:
                    inputs.append(_buffer(buffers[edge.producer]))
                    readers[edge.producer] -= 1
                    if not readers[edge.producer]:
                        freed.append(buffers.pop(edge.producer))
                tms.append(tuple(tm for tm in edge.tms if tm.name == "tile_broadcast"))
            if before is not None and before in freed and self._reads_dest(node, inputs, tms, _buffer(before)):
                inputs[inputs.index(_buffer(before))] = DEST
                self.steps[-1] = replace(self.steps[-1], output=DEST)
                freed.remove(before)
            last = node is self.members[-1]
            buffer = buffers[node.name] = next(i for i in range(len(self.members)) if i not in buffers.values())
            self.steps.append(
                Step(
                    f"{node.spec.type}.{len(self.steps)}",
                    node.spec,
                    tuple(inputs),
                    OUTPUT if last else _buffer(buffer),
                    tuple(tms) if any(tms) else (),
                    tuple(_buffer(i) for i in freed),
                    node.elements,
                    node.name,
                )
            )
            before = None if node.spec.relu or node.spec.type == "maximum" else buffer
        steps, count = _numbered(self.steps)
        return Fused(len(self.entering), count, (steps,)), self.entering

    def _reads_dest(self, node: Node, inputs: list[str], tms: list[tuple[Tm, ...]], name: str) -> bool:
        at = [i for i, source in enumerate(inputs) if source == name]
        if node.spec.type in NOT_FROM_DEST or len(at) != 1 or tms[at[0]]:
            return False
        return at[0] == 0 or not self.dest_first


def _buffer(number: int) -> str:
    return f"intermed{number}"


def _numbered(steps: list[Step]) -> tuple[tuple[Step, ...], int]:
    """Returns the steps with buffers numbered in order of appearance, and the number of buffers."""
    order: dict[str, str] = {}
    for step in steps:
        if step.output not in (DEST, OUTPUT):
            order.setdefault(step.output, _buffer(len(order)))
    return tuple(
        replace(
            step,
            inputs=tuple(order.get(name, name) for name in step.inputs),
            output=order.get(step.output, step.output),
            pop=tuple(order[name] for name in step.pop),
        )
        for step in steps
    ), len(order)


__all__ = ["operands_in_order", "repeats_last", "steps_of_group"]
