"""Pieces of a program that are wider than one op: which ops they hold, what they take and what leaves them.

A window is an op with the producers nearest to it, the latest first. Each producer that is added stands before all
that were, so whatever lies between two ops of a window is in it (it is convex), and it is connected. A layer is a
numbered scope of the model's source (`layer3`, `stage1/block0`) with all that lies between its ops. No piece crosses
the border of a loop's or a branch's body. Constants and splats in other shapes come along uncounted: whether a
compiler fuses ops often depends on their values. Only results that an op outside the piece reads, or that the program
returns, leave it: a value that is also returned is not fused away. Plain dataclasses without MLIR.

A pattern is what compilers fuse (`patterns.PATTERNS`): the ops of the shape, what lies between them, and the moves that
bring them their operands.

Of windows and patterns that lie in one another the largest stays: in the model too the smaller one has the rest around
it, and what a compiler does to it there it does in the larger piece.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import permutations

from opscope.base.op_families import LAYER, PATTERN, WINDOW
from opscope.harness.prepare.patterns import PATTERNS, Shape, is_elementwise, is_light, is_move
from opscope.harness.prepare.program import Node, Program

KEEPS_SPLAT = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.transpose", "stablehlo.convert"})
"""Ops that make of a splat the same splat in another shape (a convert only where the type stays: exporters write
such ones)."""
LARGEST_CONSTANT = 64 << 10
"""Bytes of a constant, not a splat, up to which it stands inside the piece: a scale or a mask does, weights become an
argument, which a compiler knows as a parameter."""

LARGEST_PATTERN = 32
"""The most ops of a pattern's piece: no fusion holds more."""
REACH = 2_000
"""How many ops before a pattern's first one are looked at for what brings it its operands."""
MOST_STEPS = 12
"""How many ops may lie between two of a shape."""

_NUMBERED = re.compile(r"[^/.]*\d\]?")
"""A part of a scope that is one of several alike: `layer3`, `[3]`."""


@dataclass(frozen=True)
class Piece:
    """Some ops of a program, as a program of their own."""

    name: str
    """`window:add`, `layer:layer3`."""
    members: tuple[Node, ...]
    """The ops that it holds, in the program's order."""
    nodes: tuple[Node, ...]
    """The same with the constants and splats that they read, each before what reads it."""
    arguments: tuple[int, ...]
    """The values from outside, in order of first use."""
    results: tuple[int, ...]
    """The values that leave it."""


def windows(program: Program, size: int) -> list[Piece]:
    """For each op of a program and of its bodies, in program order, the window of `size` ops that ends in it, or of
    fewer where there are no more and no other holds these.

    An op that reads no other has none: alone it is no piece. An op without a module of its own is in none, and neither
    are splats in other shapes.
    """
    inside = uncounted(program)
    return [piece for part in _parts(program) for piece in _windows_of(Line(part, inside), size)]


def layers(program: Program) -> list[Piece]:
    """The numbered scopes of a program and of its bodies, in the order of their last ops. An op without such a scope,
    as in a function that JAX has traced once for all layers, belongs to the layer that it lies in the middle of."""
    inside = uncounted(program)
    return [piece for part in _parts(program) for piece in _layers_of(Line(part, inside))]


def patterns(program: Program) -> list[Piece]:
    """What compilers fuse of a program and of its bodies, in the order of the pieces' last ops."""
    inside = uncounted(program)
    return [piece for part in _parts(program) for piece in _patterns_of(Line(part, inside))]


def scope_of(location: str) -> str:
    """The numbered scope in a location's text: its parts up to the last of the first numbered ones, without the op's
    own name; empty if it has none. `jit(f)/layer3.attention/dot_general (bert.py:9)` is in `layer3`."""
    parts = re.findall(r"[^/.]+[/.]?", location.partition(" (")[0].rpartition("/")[0])
    numbered = [_NUMBERED.fullmatch(part.rstrip("/.")) is not None for part in parts]
    if True not in numbered:
        return ""
    first = numbered.index(True)
    last = numbered.index(False, first) if False in numbered[first:] else len(parts)
    outer = next((place + 1 for place in range(first - 1, -1, -1) if "(" in parts[place]), 0)
    return "".join(parts[outer:last]).rstrip("/.")


def reads(node: Node) -> tuple[int, ...]:
    """The values that an op reads, those that its regions capture included, but for constants that its module holds."""
    return tuple(dict.fromkeys((*node.operands, *node.inputs)))


def _parts(program: Program) -> Iterator[Program]:
    """A program and all bodies in it."""
    yield program
    for node in program.nodes:
        for body in node.bodies:
            yield from _parts(body)


def uncounted(program: Program) -> dict[int, Node]:
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


class Line:
    """One straight line of nodes, by their places in it."""

    def __init__(self, program: Program, inside: Mapping[int, Node]) -> None:
        """`inside` are the values that pieces hold without counting their ops (`uncounted` of the whole program)."""
        self.nodes, self.inside = program.nodes, inside
        self.makers = {
            value: place
            for place, node in enumerate(program.nodes)
            if node.kind == "op" and inside.keys().isdisjoint(node.results)
            for value in node.results
        }
        """Value -> the place of the op that makes it."""
        self.places = sorted(set(self.makers.values()))
        """Those of the ops that pieces count."""
        self.matched: dict[tuple[Shape, int, int], set[int] | None] = {}
        self._readers: dict[int, set[int]] = {value: {len(program.nodes)} for value in program.results}
        for place, node in enumerate(program.nodes):
            for value in (*reads(node), *(value for body in node.bodies for value in body.captures)):
                self._readers.setdefault(value, set()).add(place)

        self.after: dict[int, set[int]] = {place: set() for place in self.places}
        """Op -> the ops that read it."""
        for place in self.places:
            for earlier in self.before(place):
                self.after[earlier].add(place)
        self.fixed: set[int] = set()
        """Ops that constants alone decide."""
        for place in self.places:
            values = reads(self.nodes[place])
            if all(value in inside or self.makers.get(value) in self.fixed for value in values):
                self.fixed.add(place)

    def before(self, place: int) -> set[int]:
        """The ops that an op reads."""
        return {self.makers[value] for value in reads(self.nodes[place]) if value in self.makers}

    def window(self, end: int, size: int) -> set[int]:
        """An op with the producers nearest to it, the latest first, up to `size` ops."""
        held = {end}
        while len(held) < size and (before := set().union(*map(self.before, held)) - held):
            held.add(max(before))
        return held

    def with_between(self, held: Iterable[int]) -> set[int]:
        """Some ops with all that lies between two of them."""
        places = set(held)
        down, up = set(places), set(places)
        span = self.places[bisect_right(self.places, min(places)) : bisect_left(self.places, max(places))]
        for place in span:
            if down & self.before(place):
                down.add(place)
        for place in reversed(span):
            if up & self.after[place]:
                up.add(place)
        return down & up

    def with_producers(self, held: set[int], taken: Callable[[Node], bool]) -> set[int]:
        """Some ops with those before them that `taken` says or that constants alone decide, as far as nothing else lies
        between."""
        grown, seen, first = set(held), set(held), min(held) - REACH
        rest: list[int] = []
        """What these are computed from, the latest on top, so that all its readers above have been looked at."""
        only = set[int]()
        """Those of the rest that only taken ops read, as far as is known; none, and nothing further back matters."""
        for place in sorted(held, reverse=True):
            self._push(rest, seen, place, first, only)
        while only and len(grown) < LARGEST_PATTERN:
            place = -heappop(rest)
            if place in only and (place in self.fixed or taken(self.nodes[place])):
                grown.add(place)
                self._push(rest, seen, place, first, only)
            else:
                self._push(rest, seen, place, first)
                only -= self.before(place)
            only.discard(place)
        return grown

    def _push(self, rest: list[int], seen: set[int], place: int, first: int, only: set[int] | None = None) -> None:
        """Adds what an op reads to the `rest`, each once and as far back as `first`, and to `only`."""
        for earlier in self.before(place):
            if earlier not in seen and earlier > first:
                seen.add(earlier)
                heappush(rest, -earlier)
                if only is not None:
                    only.add(earlier)

    def piece(self, held: set[int], name: str) -> Piece:
        """The ops at some places as a piece."""
        members = tuple(self.nodes[place] for place in sorted(held))
        made = {value for node in members for value in node.results}
        nodes: dict[str, Node] = {}
        arguments: dict[int, None] = {}

        def take(node: Node) -> None:
            for value in reads(node):
                if value in self.inside:
                    take(self.inside[value])
                elif value not in made:
                    arguments[value] = None
            nodes[node.path] = node

        for node in members:
            take(node)
        leaving = tuple(value for node in members for value in node.outputs if self._readers.get(value, set()) - held)
        results = leaving or members[-1].outputs
        return Piece(name, members, tuple(nodes.values()), tuple(arguments), results)


def _windows_of(line: Line, size: int) -> Iterator[Piece]:
    """The windows of one straight line of nodes."""
    ends = {frozenset(held): end for end in line.places if len(held := line.window(end, size)) > 1}
    for held in _largest(ends):
        yield line.piece(set(held), f"{WINDOW}:{line.nodes[ends[held]].name.rpartition('.')[2]}")


def _largest(sets: Collection[frozenset[int]]) -> Iterator[frozenset[int]]:
    """Those that lie in no other, in their order."""
    holding: dict[int, list[frozenset[int]]] = {}
    for held in sets:
        for place in held:
            holding.setdefault(place, []).append(held)
    for held in sets:
        if not any(held < other for other in min((holding[place] for place in held), key=len)):
            yield held


def _layers_of(line: Line) -> Iterator[Piece]:
    """The layers of one straight line of nodes."""
    scopes = {place: scope_of(line.nodes[place].location) for place in line.places}
    above: dict[int, set[str]] = {}
    below: dict[int, set[str]] = {}
    for near, places, others in ((above, line.places, line.before), (below, line.places[::-1], line.after.__getitem__)):
        for place in places:  # the layers that an op without one reads, or is read by, perhaps through others
            near[place] = set().union(*({scopes[other]} if scopes[other] else near[other] for other in others(place)))
    held: dict[str, set[int]] = {}
    for place in line.places:
        between = sorted(above[place] & below[place])
        if scope := scopes[place] or (between[-1] if between else ""):
            held.setdefault(scope, set()).add(place)
    for scope, places in sorted(held.items(), key=lambda item: max(item[1])):
        if len(whole := line.with_between(places)) > 1:
            yield line.piece(whole, f"{LAYER}:{scope}")


def _patterns_of(line: Line) -> Iterator[Piece]:
    """The patterns of one straight line of nodes, each set of ops under its first name."""
    names: dict[frozenset[int], str] = {}
    for pattern in PATTERNS:
        found = _side_by_side(line, pattern.shape) if pattern.side_by_side else _shaped(line, pattern.shape)
        taken = is_elementwise if pattern.chain else is_move
        fit = [(held, line.with_between(held)) for held in found if len(held) <= LARGEST_PATTERN]
        if not pattern.side_by_side:  # a product between two ops is one that no compiler fuses them over
            fit = [(held, wide) for held, wide in fit if all(is_light(line.nodes[place]) for place in wide - held)]
        whole = (frozenset(line.with_producers(wide, taken)) for _, wide in fit if len(wide) <= LARGEST_PATTERN)
        for held in whole:
            if 1 < len(held) <= LARGEST_PATTERN:
                names.setdefault(held, pattern.name)
    for held in sorted(_largest(names), key=lambda held: (max(held), sorted(held))):
        yield line.piece(set(held), f"{PATTERN}:{names[held]}")


def _shaped(line: Line, shape: Shape) -> Iterator[set[int]]:
    """The ops of a shape, wherever it stands."""
    for place in line.places:
        if shape.is_last(line.nodes[place]) and (held := _operands(line, shape, place)) is not None:
            yield held


def _operands(line: Line, shape: Shape, place: int) -> set[int] | None:
    """The op at a place, the last one of a shape, with what the shape says of its operands; None if they do not fit."""
    before = sorted(line.before(place), reverse=True)
    for chosen in permutations(before, len(shape.operands)) if len(shape.operands) <= len(before) else ():
        found = [_matched(line, operand, maker) for operand, maker in zip(shape.operands, chosen, strict=True)]
        if all(found):
            return {place}.union(*filter(None, found))
    return None


def _matched(line: Line, shape: Shape, place: int, steps: int = MOST_STEPS) -> set[int] | None:
    """The ops of a shape that a value comes from, with those between; what is asked again is known."""
    if (asked := (shape, place, steps)) not in line.matched:
        line.matched[asked] = _looked_for(line, shape, place, steps)
    return line.matched[asked]


def _looked_for(line: Line, shape: Shape, place: int, steps: int) -> set[int] | None:
    node = line.nodes[place]
    if shape.is_last(node) and (held := _operands(line, shape, place)) is not None:
        return held
    if steps and (is_elementwise if shape.far else is_move)(node):
        for maker in sorted(line.before(place), reverse=True):
            if (held := _matched(line, shape, maker, steps - 1)) is not None:
                return held | {place}
    return None


def _side_by_side(line: Line, shape: Shape) -> Iterator[set[int]]:
    """All ops of one kind that read one value, with what makes it and the moves of their results."""
    readers: dict[int, set[int]] = {}
    for place in line.places:
        if shape.is_last(line.nodes[place]):
            for value in reads(line.nodes[place]):
                if value not in line.inside:
                    readers.setdefault(value, set()).add(place)
    for value, places in readers.items():
        if len(places) < 2:
            continue
        held = {*places, line.makers[value]} if value in line.makers else set(places)
        for place in sorted(places):
            while len(line.after[place]) == 1 and is_move(line.nodes[next_ := min(line.after[place])]):
                held.add(next_)
                place = next_
        yield held
