"""Compares what two compilers make of one op: where each stops, and how their ttir and ttnn differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opscope.compiler.against.printed_ops import PrintedOp, read, split

Kind = Literal["ops", "attribute missing", "attribute added", "attribute type", "attribute value", "type", "layout"]
"""What differs: the ops that a text has; an attribute that only the other has, or only we have; the type or the value
of one that both have; a result's type; where a result lies in memory."""
MOVES = frozenset(
    (
        *("ttnn.get_device", "ttnn.to_layout", "ttnn.to_device", "ttnn.from_device", "ttnn.to_memory_config"),
        *("ttnn.deallocate", "ttcore.load_cached"),
    )
)
"""Ops that place tensors, or name the function that makes a constant, and compute nothing; each compiler may place
theirs elsewhere."""
MOST_NAMES = 8
"""Names of ops that a difference lists; more of them are counted."""
_NUMBER = re.compile(r"(?:-?[\d.]+(?:[eE][+-]?\d+)?|0x[0-9A-Fa-f]+) : (\w+)")


@dataclass(frozen=True)
class Emission:
    """What a compiler made of one op."""

    ttir: str = ""
    """The module as text; empty if it stopped before."""
    ttnn: str = ""
    stage: str = ""
    """The stage that refused the op; empty if none did."""
    reason: str = ""


@dataclass(frozen=True)
class OtherOp:
    """One op, and what the other compiler made of it."""

    op_id: str
    name: str
    """The StableHLO op's name, such as `stablehlo.add`."""
    module: bytes
    """The single-op module, as bytecode."""
    emission: Emission


@dataclass(frozen=True, order=True)
class Difference:
    """One way in which two texts of the same op differ."""

    dialect: str
    """`ttir` or `ttnn`."""
    op: str
    """The StableHLO op's name where ops differ, else the name of the op that both printed."""
    kind: Kind
    what: str
    """The attribute's name; empty for other kinds."""
    ours: str
    theirs: str


def differences(name: str, ours: Emission, theirs: Emission) -> list[Difference]:
    """Returns how the two differ, each way once; nothing for a dialect that one of them did not reach."""
    differences: dict[Difference, None] = {}
    for dialect, mine, other in (("ttir", ours.ttir, theirs.ttir), ("ttnn", ours.ttnn, theirs.ttnn)):
        if mine and other:
            differences |= dict.fromkeys(_differences(dialect, name, _own(dialect, mine), _own(dialect, other)))
    return list(differences)


def _own(dialect: str, text: str) -> list[PrintedOp]:
    names = (f"{dialect}.", "ttcore.")
    return [op for op in read(text) if op.name.startswith(names) and op.name not in MOVES]


def _differences(dialect: str, name: str, ours: list[PrintedOp], theirs: list[PrintedOp]) -> Iterator[Difference]:
    mine, other = _by_name(ours), _by_name(theirs)
    more, fewer = _surplus(mine, other), _surplus(other, mine)
    if more or fewer:
        yield Difference(dialect, name, "ops", "", _listed(more), _listed(fewer))
    for op, each in mine.items():
        if len(each) == len(other.get(op, ())):
            for a, b in _unequal(each, other[op]):
                yield from _of_pair(dialect, a, b)


def _unequal(ours: list[PrintedOp], theirs: list[PrintedOp]) -> Iterator[tuple[PrintedOp, PrintedOp]]:
    """Pairs ops of one name that have no equal, wherever it stands, in the order of the texts."""
    mine, other = list(ours), list(theirs)
    for op in ours:
        if op in other:
            mine.remove(op)
            other.remove(op)
    yield from zip(mine, other, strict=True)


def _by_name(ops: list[PrintedOp]) -> dict[str, list[PrintedOp]]:
    named: dict[str, list[PrintedOp]] = defaultdict(list)
    for op in ops:
        named[op.name].append(op)
    return named


def _surplus(ours: dict[str, list[PrintedOp]], theirs: dict[str, list[PrintedOp]]) -> list[str]:
    """Names of ops that `ours` has more of, in alphabetical order."""
    return sorted(name for name, ops in ours.items() if len(ops) > len(theirs.get(name, ())))


def _listed(names: list[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _of_pair(dialect: str, ours: PrintedOp, theirs: PrintedOp) -> Iterator[Difference]:
    for key in sorted({*ours.attributes, *theirs.attributes}):
        mine, other = ours.attributes.get(key), theirs.attributes.get(key)
        if mine is None and other is not None:
            yield Difference(dialect, ours.name, "attribute missing", key, "", type_of(other))
        elif other is None and mine is not None:
            yield Difference(dialect, ours.name, "attribute added", key, type_of(mine), "")
        elif mine is not None and other is not None and mine != other:
            if type_of(mine) != type_of(other):
                yield Difference(dialect, ours.name, "attribute type", key, type_of(mine), type_of(other))
            else:
                yield Difference(dialect, ours.name, "attribute value", key, "", "")
    if dialect == "ttir":
        if ours.results != theirs.results:
            yield Difference(dialect, ours.name, "type", "", "", "")
        return
    for mine, other in zip(ours.layouts, theirs.layouts, strict=False):
        if mine != other:
            yield Difference(dialect, ours.name, "layout", "", str(mine or "none"), str(other or "none"))


def type_of(value: str) -> str:
    """Returns the type of an attribute's printed value: `array<i64>`, `si32`, `bool`, `text`, `[i32]`, ..."""
    value = value.strip()
    if value.startswith("array<"):
        return f"array<{re.split('[:>]', value[6:], maxsplit=1)[0]}>"
    if value.startswith("dense"):
        return "dense"
    if value.startswith("["):
        return f"[{', '.join(sorted({type_of(part) for part in split(value[1:-1])}))}]"
    if value in ("true", "false"):
        return "bool"
    if value.startswith('"'):
        return "text"
    if number := _NUMBER.fullmatch(value):
        return number[1]
    if value.startswith("@"):
        return "@name"
    if opaque := re.match(r"#\w+<(\w+)", value):
        return f"{value[: opaque.start(1)]}{opaque[1]}>"
    named = re.match(r"#[\w.]+", value)
    return named[0] if named else value[:40]
