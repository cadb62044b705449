"""Tests whose parameters are crossed: those that have each value of each parameter once are quick, the others slow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import pytest

MARK = "crossed"


def each_value_once(cases: Sequence[Mapping[str, Hashable]]) -> list[int]:
    """Few of the cases that have every value which a case has, of every parameter; by number, each value evenly often.

    `cases`: parameter -> its value.
    """
    unseen = {pair for case in cases for pair in case.items()}
    used: Counter[tuple[str, Hashable]] = Counter()
    left, chosen = list(range(len(cases))), list[int]()
    while unseen:
        pairs = {number: cases[number].items() for number in left}
        best = min(left, key=lambda number: (-len(unseen & pairs[number]), sum(used[pair] for pair in pairs[number])))
        unseen -= set(pairs[best])
        used.update(pairs[best])
        left.remove(best)
        chosen.append(best)
    return sorted(chosen)


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Marks the cases of a `crossed` test slow that the quick ones do without; those that are slow stay so."""
    found = (item for item in items if item.get_closest_marker(MARK) and not item.get_closest_marker("slow"))
    crossed: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in sorted(found, key=lambda item: item.nodeid):  # the same ones in whatever order they run
        crossed[item.nodeid.partition("[")[0]].append(item)
    for cases in crossed.values():
        values = [item.callspec.params for item in cases]  # type: ignore[attr-defined]
        named = [{name: v if isinstance(v, str) else id(v) for name, v in case.items()} for case in values]
        chosen = set(each_value_once(named))
        for number, item in enumerate(cases):
            if number not in chosen:
                item.add_marker(pytest.mark.slow)
