"""The ledger: counts of a run that must add up, and the line that shows it.

unique ops = one status each; a module's ops = uses of unique ops + uses of unsplittable ops + structural ops + dead
ops. Nothing is filled in here: an op without a record makes the sum fall short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from opscope.base.visible_text import counted
from opscope.harness.record.records import Ledger, ManifestHeader, OpRow, OpTest
from opscope.harness.record.stages import Status
from opscope.harness.record.store import latest

MANY = 10
"""More models than these are told together, where they add up."""


def ledger(header: ManifestHeader, rows: Iterable[OpRow], tests: Iterable[OpTest]) -> Ledger:
    """Counts one run on one backend. The highest attempt at an op counts; unsplittable ops have no status."""
    rows = list(rows)
    whole = [row for row in rows if not _unsplittable(row)]
    broken = [row for row in rows if _unsplittable(row)]
    apart = {row.op_id for row in broken}
    counted = [test for test in latest(tests) if test.op_id not in apart]
    by_status = Counter(test.status for test in counted)
    return Ledger(
        unique=len(whole),
        by_status={status: by_status[status] for status in Status if by_status[status]},
        passed=by_status[Status.PASSED],
        unsplittable=len(broken),
        uses=_uses(header, whole),
        unsplittable_uses=_uses(header, broken),
        structural=dict(header.structural),
        dead={model: count for model, count in header.dead.items() if count},
        module_ops=dict(header.module_ops),
        stability=dict(
            sorted(Counter(test.stability for test in counted if test.stability and not test.right).items())
        ),
    )


def by_backend(
    header: ManifestHeader, rows: Iterable[OpRow], tests: Iterable[OpTest], backends: Sequence[str]
) -> dict[str, Ledger]:
    """One ledger per backend of a run, by name. Reruns on a backend that is not in `backends` are not counted."""
    rows, tests = list(rows), list(tests)
    return {name: ledger(header, rows, [test for test in tests if test.backend == name]) for name in backends}


def line(books: Mapping[str, Ledger]) -> str:
    """The ledgers as text, one line per sum: unique ops by status, then each model's ops by outcome."""
    lines = []
    for backend, counts in books.items():
        parts = " + ".join(f"{count} {ending}" for ending, count in counts.by_status.items() if count) or "0"
        total = sum(counts.by_status.values())
        whose = f"{backend}: " if len(books) > 1 else ""
        lines.append(f"{whose}{counted(counts.unique, 'unique op')} {_sign(counts.unique == total)} {parts}")
    counts = next(iter(books.values()))
    parts = (counts.module_ops, counts.uses, counts.unsplittable_uses, counts.structural, counts.dead)
    sums = {model: [part.get(model, 0) for part in parts] for model in counts.module_ops}
    if len(sums) > MANY:  # one sum of all, and those that do not add up
        all_of_them = {f"{len(sums)} models": [sum(column) for column in zip(*sums.values(), strict=True)]}
        sums = all_of_them | {model: terms for model, terms in sums.items() if terms[0] != sum(terms[1:])}
    for model, (ops, *terms) in sums.items():
        dead = f" + {terms[3]} dead" if terms[3] else ""
        lines.append(
            f"{model}: {counted(ops, 'op')} {_sign(ops == sum(terms))} "
            f"{counted(terms[0], 'use')} of unique ops + {terms[1]} unsplittable + {terms[2]} structural{dead}"
        )
    return "; ".join(lines)


def _sign(equal: bool) -> str:
    return "=" if equal else "≠"


def _unsplittable(row: OpRow) -> bool:
    return row.module is None


def _uses(header: ManifestHeader, rows: Iterable[OpRow]) -> dict[str, int]:
    counts = Counter(use.model for row in rows for use in row.uses)
    return {model: counts[model] for model in dict.fromkeys([*header.models, *counts])}
