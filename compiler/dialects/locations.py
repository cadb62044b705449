"""Locations of ops: the name of the value that an op makes, its place in the source, and the order of its dims.

If a pass makes an op produce its result in another order of dims, it notes that in the name, so that readers of
`net/relu` know how to get it: `net/relu = permute[0,3,1,2]` is a value of which that permutation is `net/relu`. Several
moves are listed in the order in which they are applied. A step on the way to that value is `part of net/relu`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of

EQUALS = " = "
"""Separates the name of a value from the moves that make it."""
PART = "part of "
"""Precedes the name of a value in the location of an op that computes only a part of it."""


def location(op: Operation) -> str:
    """Returns `name (file:line)` of an op, without the parts that are not known."""
    loc: Any = op.location
    name = ""
    if isinstance(loc, NameLoc):
        name, loc = loc.desc.data, loc.location
    if isinstance(loc, FileLineColLoc):
        place = f"{loc.filename.data}:{loc.line.data}"
        return f"{name} ({place})" if name else place
    return name


def without_places(module: ModuleOp) -> ModuleOp:
    """Returns a copy whose ops have the names of their values, and no places in sources: it is the same for whoever
    calls the model, from wherever."""
    copied = module.clone()
    for op in copied.walk():
        loc: Any = op.location
        op.location = NameLoc(loc.desc, UnknownLoc()) if isinstance(loc, NameLoc) else UnknownLoc()
    return copied


def name_of(op: Operation) -> str:
    """Returns the name of the value that an op makes or is a part of; empty if its location has none."""
    return op.location.desc.data.removeprefix(PART).partition(EQUALS)[0] if isinstance(op.location, NameLoc) else ""


def moved(loc: Any, move: str, numbers: Sequence[int]) -> Any:
    """Returns the location of a value that `move` turns into the value named by `loc`.

    `numbers` are the order of a `permute` or the shape of a `reshape`.
    """
    if not isinstance(loc, NameLoc) or loc.desc.data.startswith(PART):
        return loc
    name, _, after = loc.desc.data.partition(EQUALS)
    steps = [(move, list(numbers)), *(_step(text) for text in after.split())]
    if len(steps) > 1 and steps[0][0] == steps[1][0]:  # two moves of a kind become one
        (_, first), (_, second) = steps[:2]
        steps[:2] = [(move, [first[i] for i in second] if move == "permute" else second)]
    if steps[0][0] == "permute" and steps[0][1] == sorted(steps[0][1]):
        steps = steps[1:]
    suffix = " ".join(f"{kind}[{','.join(map(str, values))}]" for kind, values in steps)
    return NameLoc(StringAttr(f"{name}{EQUALS}{suffix}" if suffix else name), loc.location)


def take_over_location(value: SSAValue, op: Operation) -> None:
    """Gives the maker of `value` the location of `op`, before `value` replaces the op's result.

    Does so only if the maker was a step on the way to that result.
    """
    source = value.owner
    if isinstance(source, Operation) and len(source.results) == 1 and name_of(op) and name_of(source) == name_of(op):
        source.location = op.location


def reshaped(op: Operation, reshape: Operation) -> Any:
    """Returns the location of an op that makes the result of a `reshape` of `op`, under the name of `op`'s value."""
    if name_of(op) == name_of(reshape):
        return reshape.location
    return moved(op.location, "reshape", shape_of(op.results[0]))


def mark_parts(ops: Iterable[Operation], results: Collection[SSAValue]) -> None:
    """Marks those of `ops`, which together replace one op, as parts of it if they make none of its `results`."""
    for op in ops:
        loc: Any = op.location
        if isinstance(loc, NameLoc) and loc.desc.data and not any(value in results for value in op.results):
            name = loc.desc.data.removeprefix(PART).partition(EQUALS)[0]
            op.location = NameLoc(StringAttr(f"{PART}{name}"), loc.location)


def _step(text: str) -> tuple[str, list[int]]:
    kind, _, values = text.rstrip("]").partition("[")
    return kind, [int(value) for value in values.split(",") if value]
