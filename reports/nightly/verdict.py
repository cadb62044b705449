"""Decides by the policy whether a night fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opscope.harness.record.causes import by_cause, short
from opscope.reports.compare.diff import NEWS, Label, Row
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import SeriesResult

CHANGES = (Label.NEW, Label.REASON_CHANGED, Label.PCC_DROP, Label.FIXED, Label.VANISHED)
"""Labels that make a night worth a message."""


MOST_IMPORTS = 5
"""Imports that a summary names."""


@dataclass(frozen=True)
class Problem:
    """A problem of a kind that the policy names."""

    kind: str
    """A key of `POLICY`, or `acknowledged`, which fails nothing."""
    text: str
    fails: bool


@dataclass(frozen=True)
class Verdict:
    """The problems of a night, and whether anything changed."""

    problems: tuple[Problem, ...]
    changed: bool
    """Whether anything differs from the previous night."""

    @property
    def fails(self) -> bool:
        """Whether the policy fails the night."""
        return any(problem.fails for problem in self.problems)


def verdict_of(results: Sequence[SeriesResult], delivered: Delivered, policy: Mapping[str, str]) -> Verdict:
    """Collects every problem of the kinds that the policy names."""
    reasons: list[tuple[str, str]] = []
    if not any(result.attempted for result in results):
        reasons.append(("no_data", "no op was attempted in the whole night"))
    else:
        reasons += [("no_data", f"no op was attempted on {result.name}") for result in results if not result.attempted]
    news = sum(result.diff.news for result in results if result.diff is not None)
    if news:
        reasons.append(("regression", f"{_worse(news)} than in the previous night"))
    failing = sum(result.failing for result in results)
    if failing:
        reasons.append(("failure", f"{failing} {'op fails' if failing == 1 else 'ops fail'} without a known reason"))
    red = {model: text for result in results if result.view is not None for model, text in result.view.imports.items()}
    reasons += [("import", line) for line in import_lines(red)]
    reasons += [
        ("partial", f"{result.name}: missing {result.missing}") for result in results if result.status == "partial"
    ]
    if delivered.spooled:
        count = len(delivered.spooled)
        runs = "1 run waits" if count == 1 else f"{count} runs wait"
        reasons.append(("spooled", f"the database could not be reached; {runs} in the spool ({delivered.away})"))
    reasons += [("refused", line) for line in delivered.refused]
    problems = tuple(Problem(kind, text, policy[kind] == "fail") for kind, text in reasons)
    rows = [row for result in results if result.diff is not None for row in result.diff.rows]
    changed = any(row.label in CHANGES and not row.acknowledged for row in rows)
    changed = changed or any(problem.fails for problem in problems)
    return Verdict((*problems, *acknowledged(rows)), changed)


def acknowledged(rows: Iterable[Row]) -> list[Problem]:
    """A line for each cause that fails anew and that somebody acknowledged: it is said, and fails nothing."""
    quiet = [row for row in rows if row.acknowledged and row.label in NEWS]
    causes = by_cause(quiet, lambda row: row.cluster, lambda row: row.uses)
    return [
        Problem("acknowledged", f"{_worse(cause.ops)}, cause {short(cause.first.cluster)}: {cause.first.remark}", False)
        for cause in causes
    ]


def _worse(ops: int) -> str:
    return f"{ops} {'op is' if ops == 1 else 'ops are'} worse"


def import_lines(imports: Mapping[str, str]) -> list[str]:
    """A line for each of the first models whose imports are red (`RunView.imports`), and one for the rest."""
    lines = [f"{model}: {text}" for model, text in sorted(imports.items())]
    more = len(lines) - MOST_IMPORTS
    return lines[:MOST_IMPORTS] + [f"{more} more imports differ; see opscope show"] * (more > 0)
