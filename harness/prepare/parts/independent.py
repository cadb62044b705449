"""The parts of a program between which nothing flows: each can be evaluated without the others.

Two ops are of one part if one reads what the other computes, or both read the same argument or constant, or both draw
numbers from XLA's generator, which goes on from op to op. A constant that is inside the modules of its ops connects
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opscope.harness.prepare.program import Node, SplitModule
from opscope.models.frontends.own_results import RNG


@dataclass(frozen=True)
class Part:
    """Some ops of a program, in its order."""

    nodes: tuple[Node, ...]
    positions: tuple[int, ...] = ()
    """Their places in the program. None with random inputs, where the nodes are first uses, each evaluated alone."""
    results: tuple[int, ...] = ()
    """Which results of the program come of it."""

    @property
    def ops(self) -> int:
        """How many ops it has, without those in loops and branches."""
        return sum(node.kind == "op" for node in self.nodes)


_GENERATOR: Final = -1
"""Stands for the generator of random numbers, as a value that all who draw from it have."""


def parts_of(split: SplitModule) -> list[Part]:
    """The parts of a program, in the order of their first nodes; constants are in none.

    Results that no node computes, which are arguments or constants, make a last part without nodes.
    """
    program, drawing = split.program, _drawing(split)
    constants = {value for node in program.nodes if node.kind == "constant" for value in node.results}
    values = {
        position: _values(node, constants) + [_GENERATOR] * (node.op_id in drawing)
        for position, node in enumerate(program.nodes)
        if node.kind != "constant"
    }
    groups = _Groups()
    for of_node in values.values():
        groups.join(of_node)
    positions: dict[int, list[int]] = {}
    for position, of_node in values.items():
        # An op without any value is alone: its own number, below that of the generator, is that of no group.
        positions.setdefault(groups.of(of_node[0]) if of_node else _GENERATOR - 1 - position, []).append(position)
    computed = {value for position in values for value in program.nodes[position].results}
    results: dict[int | None, list[int]] = {}
    for index, value in enumerate(program.results):
        results.setdefault(groups.of(value) if value in computed else None, []).append(index)
    parts = [
        Part(tuple(program.nodes[place] for place in places), tuple(places), tuple(results.get(group, ())))
        for group, places in positions.items()
    ]
    return [*parts, Part((), results=tuple(results[None]))] if None in results else parts


def alone(split: SplitModule) -> list[Part]:
    """The parts of a program all of whose inputs are random: the first use of each op."""
    drawing, first = _drawing(split), dict[str, Node]()
    for node in split.program.walk():
        if node.kind == "op":
            first.setdefault(node.op_id, node)
    nodes = [first[op_id] for op_id in split.ops if op_id in first]
    parts = [Part((node,)) for node in nodes if node.op_id not in drawing]
    together = tuple(node for node in nodes if node.op_id in drawing)
    return [*parts, Part(together)] if together else parts


def _drawing(split: SplitModule) -> set[str]:
    """Ops whose modules draw random numbers, by themselves or in what belongs to them."""
    return {op.op_id for op in split.ops.values() if RNG in op.bytecode}


def first_uses(split: SplitModule) -> dict[str, Node]:
    """The first use of each op that a walk meets: it enters no body of what could not be split."""
    first: dict[str, Node] = {}

    def visit(nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if node.kind == "op":
                first.setdefault(node.op_id, node)
                for body in node.bodies:
                    visit(body.nodes)

    visit(split.program.nodes)
    return first


def _values(node: Node, constants: set[int]) -> list[int]:
    """The values that connect a node with others."""
    captured = [value for body in node.bodies for value in body.captures]
    operands = [value for value in node.operands if value not in constants]  # a constant that is an input is below
    return list(dict.fromkeys([*operands, *node.inputs, *captured, *node.results]))


class _Groups:
    """Values in groups, which are joined where a node has values of several."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def of(self, value: int) -> int:
        """The number of a value's group."""
        parent = self._parent
        while parent.setdefault(value, value) != value:
            parent[value] = value = parent[parent[value]]
        return value

    def join(self, values: list[int]) -> None:
        """Makes one group of those of some values."""
        for value in values[1:]:
            self._parent[self.of(value)] = self.of(values[0])
