"""How many of the ops in a loop or a branch are right by themselves, where it is not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from re import finditer

from opscope.base.op_families import op_family
from opscope.harness.record.records import OpRow, OpTest


def otherwise_right(
    failed: Iterable[OpTest], rows: Sequence[OpRow], tests: Sequence[OpTest]
) -> Iterator[tuple[OpTest, str]]:
    """Those of some failed ops of a run that hold ops of which most are right alone on the same backend, each with
    words for it: `all but 2 of the 6 ops in it are right`. `rows` and `tests` are those of the run."""
    loops = [test for test in failed if op_family(test.op_name) == "control"]
    if not loops:
        return
    held: dict[tuple[str, str], set[str]] = defaultdict(set)
    places: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        for use in row.uses:
            places[row.op_id].add((use.model, use.path))
            for dot in finditer(r"\.", use.path):  # `main/40.body/3` is in `main/40`
                held[use.model, use.path[: dot.start()]].add(row.op_id)
    right = {(test.op_id, test.backend): test.right for test in tests}
    for test in loops:
        inside = set[str]().union(*(held[place] for place in places[test.op_id] if place in held))
        judged = [right[op_id, test.backend] for op_id in inside if (op_id, test.backend) in right]
        if (wrong := judged.count(False)) < len(judged) / 2:
            apart = f"all but {wrong} of the" if wrong else "all"
            yield test, f"{apart} {len(judged)} ops in it are right"
