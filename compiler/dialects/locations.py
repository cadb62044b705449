"""What a location says of its op: the name of what it makes, where that is written, and how it lies.

A pass that has an op make its result in another order of dims says so in the name, so that whoever looks for the value
of `net/relu` knows how to read it: `net/relu = permute[0,3,1,2]` is a value of which that permutation is `net/relu`.
Several moves stand in the order in which they are applied. A step on the way to that value is `part of net/relu`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, NameLoc, StringAttr
from xdsl.ir import Operation, SSAValue

from opscope.compiler.ops.shapes import shape_of

EQUALS = " = "
"""Between the name of a value and the moves that make it."""
PART = "part of "
"""Before the name of a value that an op does not make, but is made for."""


def location(op: Operation) -> str:
    """`name (file:line)` of an op; what is not known is left out."""
    loc: Any = op.location
    name = ""
    if isinstance(loc, NameLoc):
        name, loc = loc.desc.data, loc.location
    if isinstance(loc, FileLineColLoc):
        place = f"{loc.filename.data}:{loc.line.data}"
        return f"{name} ({place})" if name else place
    return name


def name_of(op: Operation) -> str:
    """The name of the value that an op makes or is made for; empty where its location has none."""
    return op.location.desc.data.removeprefix(PART).partition(EQUALS)[0] if isinstance(op.location, NameLoc) else ""


def moved(loc: Any, move: str, numbers: Sequence[int]) -> Any:
    """The location of a value that `move` makes what `loc` says: a `permute` by an order, a `reshape` to a shape."""
    if not isinstance(loc, NameLoc) or loc.desc.data.startswith(PART):
        return loc
    name, _, after = loc.desc.data.partition(EQUALS)
    steps = [(move, list(numbers)), *(_step(text) for text in after.split())]
    if len(steps) > 1 and steps[0][0] == steps[1][0]:  # two of a kind are one
        (_, first), (_, second) = steps[:2]
        steps[:2] = [(move, [first[i] for i in second] if move == "permute" else second)]
    if steps[0][0] == "permute" and steps[0][1] == sorted(steps[0][1]):
        steps = steps[1:]
    suffix = " ".join(f"{kind}[{','.join(map(str, values))}]" for kind, values in steps)
    return NameLoc(StringAttr(f"{name}{EQUALS}{suffix}" if suffix else name), loc.location)


def tell_value(value: SSAValue, op: Operation) -> None:
    """Before `value` takes the place of an op's result: where it is a step to that, it is the result from now on."""
    source = value.owner
    if isinstance(source, Operation) and len(source.results) == 1 and name_of(op) and name_of(source) == name_of(op):
        source.location = op.location


def reshaped(op: Operation, reshape: Operation) -> Any:
    """The location of an op that makes the result of a `reshape` of `op`, and is still told as what `op` made."""
    if name_of(op) == name_of(reshape):
        return reshape.location
    return moved(op.location, "reshape", shape_of(op.results[0]))


def tell_parts(ops: Iterable[Operation], results: Collection[SSAValue]) -> None:
    """Of ops that were made for one: those that make none of its results are parts of it."""
    for op in ops:
        loc: Any = op.location
        if isinstance(loc, NameLoc) and loc.desc.data and not any(value in results for value in op.results):
            name = loc.desc.data.removeprefix(PART).partition(EQUALS)[0]
            op.location = NameLoc(StringAttr(f"{PART}{name}"), loc.location)


def _step(text: str) -> tuple[str, list[int]]:
    kind, _, values = text.rstrip("]").partition("[")
    return kind, [int(value) for value in values.split(",") if value]
