"""From tried points to a rule: for which sizes does an op fail?

Hypotheses are simple predicates of one integer, the simpler before the less simple. Those that every point agrees with
are candidates; while there are several, the next point is one that they disagree on. What remains is the rule: it says
nothing that no point was tried for, and a point that contradicts it would have ruled it out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

MODULI = (2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Rule:
    """A predicate and how it reads: `{} % 32 != 0`."""

    text: str
    holds: Callable[[int], bool]
    cost: int
    """Simpler rules cost less."""

    def of(self, name: str) -> str:
        """The rule with the name of what it speaks of."""
        return self.text.replace("{}", name)


def hypotheses(points: Mapping[int, bool]) -> list[Rule]:
    """Every rule that the points agree with, the simplest first. `points`: size -> whether it fails."""
    return [rule for rule in sorted(_rules(points), key=lambda rule: rule.cost) if agrees(rule, points)]


def agrees(rule: Rule, points: Mapping[int, bool]) -> bool:
    """Whether a rule agrees with every point."""
    return all(rule.holds(size) is fails for size, fails in points.items())


def _rules(points: Mapping[int, bool]) -> Iterable[Rule]:
    sizes = sorted(points)
    failing, passing = [s for s in sizes if points[s]], [s for s in sizes if not points[s]]
    yield Rule("always", lambda size: True, 0)
    yield Rule("never", lambda size: False, 0)
    thresholds = _thresholds(sizes, points)
    for bound in thresholds:
        yield Rule(f"{{}} >= {bound}" if bound != 2 else "{} > 1", lambda size, b=bound: size >= b, 1)
        yield Rule(f"{{}} < {bound}", lambda size, b=bound: size < b, 1)
    for modulus in MODULI:
        yield from _modular(modulus)
    yield Rule("{} is a power of 2", _power, 3)
    yield Rule("{} is no power of 2", lambda size: not _power(size), 3)
    if len(failing) == 1:
        yield Rule(f"{{}} == {failing[0]}", lambda size, only=failing[0]: size == only, 3)
    if len(passing) == 1:
        yield Rule(f"{{}} != {passing[0]}", lambda size, only=passing[0]: size != only, 3)
    for low in thresholds:
        for high in (bound for bound in thresholds if bound > low):
            yield Rule(f"{low} <= {{}} < {high}", lambda size, a=low, b=high: a <= size < b, 4)
            yield Rule(f"{{}} < {low} or {{}} >= {high}", lambda size, a=low, b=high: size < a or size >= b, 4)
        for modulus in MODULI:
            for part in _modular(modulus):
                yield Rule(
                    f"{{}} >= {low} and {part.text}", lambda s, a=low, p=part: s >= a and p.holds(s), 3 + part.cost
                )
                yield Rule(
                    f"{{}} < {low} and {part.text}", lambda s, a=low, p=part: s < a and p.holds(s), 3 + part.cost
                )


def _modular(modulus: int) -> Iterable[Rule]:
    yield Rule(f"{{}} % {modulus} != 0", lambda size, m=modulus: size % m != 0, 2)
    yield Rule(f"{{}} % {modulus} == 0", lambda size, m=modulus: size % m == 0, 2)


def _thresholds(sizes: Sequence[int], points: Mapping[int, bool]) -> list[int]:
    """The sizes at which the finding changes."""
    return [after for before, after in itertools.pairwise(sizes) if points[before] is not points[after]]


def _power(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def next_size(rules: Sequence[Rule], points: Mapping[int, bool], allowed: Iterable[int]) -> int | None:
    """The size that distinguishes the rules best; None if no size distinguishes them.

    First a threshold is made exact: the middle between the two tried sizes beside it.
    """
    sizes, free = sorted(points), [size for size in allowed if size not in points]
    if not free:
        return None
    if rules and rules[0].cost in (1, 4):
        for before, after in itertools.pairwise(sizes):
            if points[before] is not points[after] and after - before > 1:
                middle = (before + after) // 2
                inside = [size for size in free if before < size < after]
                if inside:
                    return min(inside, key=lambda size: abs(size - middle))
    best, most = None, 0
    for size in free:
        says = sum(rule.holds(size) for rule in rules)
        split = min(says, len(rules) - says)
        if split > most:
            best, most = size, split
    return best


def settle(
    points: dict[int, bool], ask: Callable[[int], bool | None], allowed: Sequence[int], limit: int
) -> Rule | None:
    """The rule for the points, after asking for up to `limit` more; None if no simple rule holds.

    `ask` says whether a size fails, None: it cannot be told. The points asked for are added to `points`.
    """
    unknown: set[int] = set()
    for _ in range(limit):
        rules = hypotheses(points)
        if not rules:
            break
        size = next_size(rules, points, [each for each in allowed if each not in unknown])
        if size is None:
            break
        fails = ask(size)
        if fails is None:
            unknown.add(size)
        else:
            points[size] = fails
    rules = hypotheses(points)
    return rules[0] if rules else None
