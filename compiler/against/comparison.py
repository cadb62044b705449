"""The comparison over many ops: where each compiler stops, counts, and differences grouped with one example each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opscope.compiler.against.kept import reason_for, upstream_of
from opscope.compiler.against.one_op import Difference, Emission, OtherOp, differences

DIALECTS = ("ttir", "ttnn")


@dataclass(frozen=True)
class Stops:
    """Ops of one name that stop at the same place, here and there."""

    name: str
    here: str
    """Stage and reason; empty where this compiler gets through."""
    there: str
    count: int
    example: str
    """The id of one of them."""


@dataclass(frozen=True)
class Group:
    """One difference, over all ops that have it."""

    difference: Difference
    """Of an attribute or a layout, that of the first op; `ops` has all of them."""
    ops: tuple[str, ...]
    count: int
    """How many unique ops have it."""
    example: str
    reason: str
    """Why it is kept; empty if nobody has said so."""
    upstream: str
    """The test of upstream's that expects our form; empty where there is none."""


@dataclass(frozen=True)
class Agreement:
    """How many ops agree in one dialect."""

    dialect: str
    both: int
    """Ops of which both compilers printed this dialect."""
    names: int
    """Those with the same ops."""
    upstream: int
    """Those with the same ops, or ones that a test of upstream's expects, which the row of `kept.py` names."""
    all: int
    """Those that also agree in attributes, types and layouts."""


@dataclass(frozen=True)
class Comparison:
    """All that was compared."""

    ops: int
    stops: tuple[Stops, ...]
    agreements: tuple[Agreement, ...]
    groups: tuple[Group, ...]

    @property
    def unexplained(self) -> tuple[Group, ...]:
        """Differences without a reason."""
        return tuple(group for group in self.groups if not group.reason)


def compare(others: Iterable[OtherOp], ours: Callable[[bytes], Emission]) -> Comparison:
    """Compares each op with what `ours` makes of its module."""
    stops: Counter[tuple[str, str, str]] = Counter()
    first: dict[object, str] = {}
    both: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[object, ...]] = Counter()
    named: dict[tuple[object, ...], dict[str, None]] = {}
    kept: dict[tuple[object, ...], Difference] = {}
    total = 0
    for other in others:
        total += 1
        mine, theirs = ours(other.module), other.emission
        place = (other.name, _where(mine), _where(theirs))
        if mine.stage or theirs.stage:
            stops[place] += 1
            first.setdefault(place, other.op_id)
        different = differences(other.name, mine, theirs)
        for dialect in DIALECTS:
            if getattr(mine, dialect) and getattr(theirs, dialect):
                here = [each for each in different if each.dialect == dialect]
                both[dialect, "both"] += 1
                other_ops = [each for each in here if each.kind == "ops"]
                both[dialect, "names"] += not other_ops
                both[dialect, "upstream"] += all(map(upstream_of, other_ops))
                both[dialect, "all"] += not here
        for key in dict.fromkeys(map(_key, different)):
            counts[key] += 1
            first.setdefault(key, other.op_id)
        for each in different:
            named.setdefault(_key(each), {})[each.op] = None
            kept.setdefault(_key(each), each)
    return Comparison(
        total,
        tuple(Stops(*place, count, first[place]) for place, count in sorted(stops.items())),
        tuple(Agreement(d, both[d, "both"], both[d, "names"], both[d, "upstream"], both[d, "all"]) for d in DIALECTS),
        tuple(
            Group(kept[key], tuple(named[key]), count, first[key], reason_for(kept[key]), upstream_of(kept[key]))
            for key, count in sorted(counts.items(), key=lambda item: (kept[item[0]].dialect, -item[1], kept[item[0]]))
        ),
    )


def _where(emission: Emission) -> str:
    return f"{emission.stage}: {emission.reason}" if emission.stage else ""


def _key(each: Difference) -> tuple[object, ...]:
    """What groups a difference: other ops with the same attribute, type of it and so on, except where ops differ."""
    op = each.op if each.kind == "ops" else ""
    return each.dialect, each.kind, op, each.what, each.ours, each.theirs, reason_for(each), upstream_of(each)
