"""Pieces of a program that are wider than one op: which ops they hold, what they take and what leaves them.

A window is an op with the producers nearest to it, the latest first. Each producer that is added stands before all
that were, so whatever lies between two ops of a window is in it (it is convex), and it is connected. A window never
crosses the border of a loop's or a branch's body. Constants and splats in other shapes come along uncounted: whether a
compiler fuses ops often depends on their values. Only results that an op outside the piece reads, or that the program
returns, leave it: a value that is also returned is not fused away. Plain dataclasses without MLIR.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opscope.harness.prepare.program import Node, Program

KEEPS_SPLAT = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose", "stablehlo.convert"})
"""Ops that make of a splat the same splat in another shape (a convert only where the type stays: exporters write
such ones)."""
LARGEST_CONSTANT = 64 << 10
"""Bytes of a constant, not a splat, up to which it stands inside the piece: a scale or a mask does, weights become an
argument, which a compiler knows as a parameter."""


@dataclass(frozen=True)
class Piece:
    """Some ops of a program, as a program of their own."""

    members: tuple[Node, ...]
    """The ops that it holds, in the program's order."""
    nodes: tuple[Node, ...]
    """The same with the constants and splats that they read, each before what reads it."""
    arguments: tuple[int, ...]
    """The values from outside, in order of first use."""
    results: tuple[int, ...]
    """The values that leave it."""


def windows(program: Program, size: int) -> list[Piece]:
    """For each op of a program and of its bodies, in program order, the window of up to `size` ops that ends in it.

    An op without a module of its own is in none, and neither are splats in other shapes.
    """
    inside = _uncounted(program)
    return [piece for part in _parts(program) for piece in _windows_of(part, size, inside)]


def reads(node: Node) -> tuple[int, ...]:
    """The values that an op reads, those that its regions capture included, but for constants that its module holds."""
    return tuple(dict.fromkeys((*node.operands, *node.inputs)))


def _parts(program: Program) -> Iterator[Program]:
    """A program and all bodies in it."""
    yield program
    for node in program.nodes:
        for body in node.bodies:
            yield from _parts(body)


def _uncounted(program: Program) -> dict[int, Node]:
    """Values that pieces hold without counting their ops -> what makes them: constants, splats in other shapes."""
    makers: dict[int, Node] = {}
    splats = set[int]()
    for node in program.walk():
        if node.kind == "constant" and node.value is not None:
            [value] = node.results
            if not any(node.value.strides):
                splats.add(value)
            elif node.value.nbytes > LARGEST_CONSTANT:
                continue
            makers[value] = node
        elif node.kind == "op" and node.name in KEEPS_SPLAT and splats.issuperset(node.operands):
            makers |= dict.fromkeys(node.results, node)
            splats.update(node.results)
    return makers


def _windows_of(program: Program, size: int, inside: dict[int, Node]) -> Iterator[Piece]:
    """The windows of one straight line of nodes."""
    places = {
        value: place
        for place, node in enumerate(program.nodes)
        if node.kind == "op" and inside.keys().isdisjoint(node.results)
        for value in node.results
    }
    readers: dict[int, set[int]] = {value: {len(program.nodes)} for value in program.results}
    for place, node in enumerate(program.nodes):
        for value in (*reads(node), *(value for body in node.bodies for value in body.captures)):
            readers.setdefault(value, set()).add(place)
    for end in sorted(set(places.values())):
        held = {end}
        while len(held) < size:
            before = {places[value] for place in held for value in reads(program.nodes[place]) if value in places}
            if not before - held:
                break
            held.add(max(before - held))
        yield _piece(program, sorted(held), inside, readers)


def _piece(program: Program, held: list[int], inside: dict[int, Node], readers: dict[int, set[int]]) -> Piece:
    """The ops at the places `held` as a piece."""
    members = tuple(program.nodes[place] for place in held)
    made = {value for node in members for value in node.results}
    nodes: dict[str, Node] = {}
    arguments: dict[int, None] = {}

    def take(node: Node) -> None:
        for value in reads(node):
            if value in inside:
                take(inside[value])
            elif value not in made:
                arguments[value] = None
        nodes[node.path] = node

    for node in members:
        take(node)
    leaving = tuple(value for node in members for value in node.outputs if readers.get(value, set()) - {*held})
    return Piece(members, tuple(nodes.values()), tuple(arguments), leaving or members[-1].outputs)
