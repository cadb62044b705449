"""Finds repeated layers of a program: runs of ops that have equal names, attributes and types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Block, Operation


@dataclass(frozen=True)
class Repetition:
    """`count` equal runs of `length` ops, one after the other, from op `start` on."""

    start: int
    length: int
    count: int


def repetition(block: Block) -> Repetition | None:
    """Returns the repetition that covers most ops of a function; None if nothing repeats."""
    signs = [_sign(op) for op in block.ops]
    best: Repetition | None = None
    for length in _periods(signs):
        start = 0
        while start + 2 * length <= len(signs):
            count = 1
            while signs[start : start + length] == signs[start + count * length : start + (count + 1) * length]:
                count += 1
            if count > 1 and (best is None or count * length > best.count * best.length):
                best = Repetition(start, length, count)
            start += max(1, (count - 1) * length)
    return best


def _sign(op: Operation) -> tuple:
    """Returns the parts of an op that agree in equal layers: name, attributes, types."""
    types = tuple(str(value.type) for value in (*op.operands, *op.results))
    return op.name, tuple(sorted((key, str(value)) for key, value in op.properties.items())), types


def _periods(signs: Sequence[tuple]) -> list[int]:
    """Returns the commonest distances between equal ops, the only candidates for the length of a layer."""
    last: dict[tuple, int] = {}
    counted: dict[int, int] = {}
    for at, sign in enumerate(signs):
        if sign in last:
            distance = at - last[sign]
            counted[distance] = counted.get(distance, 0) + 1
        last[sign] = at
    common = sorted(counted, key=lambda distance: -counted[distance])
    return common[:8]
