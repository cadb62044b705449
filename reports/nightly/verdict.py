"""Whether a night fails, by its policy, and what is to be said of it in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opscope.reports.compare.diff import Label
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import Found

CHANGES = (Label.NEW, Label.REASON_CHANGED, Label.PCC_DROP, Label.FIXED, Label.VANISHED)
"""Labels that make a night worth a message."""


@dataclass(frozen=True)
class Problem:
    """Something that a policy has a word for."""

    kind: str
    """A key of `POLICY`."""
    text: str
    fails: bool


@dataclass(frozen=True)
class Verdict:
    """What a night comes to."""

    problems: tuple[Problem, ...]
    changed: bool
    """Whether anything is other than in the night before."""

    @property
    def fails(self) -> bool:
        """Whether the policy fails the night."""
        return any(problem.fails for problem in self.problems)


def judge(found: Sequence[Found], delivered: Delivered, policy: Mapping[str, str]) -> Verdict:
    """Everything that the policy has a word for."""
    told: list[tuple[str, str]] = []
    if not any(one.attempted for one in found):
        told.append(("no_data", "no op was attempted in the whole night"))
    else:
        told += [("no_data", f"no op was attempted on {one.series}") for one in found if not one.attempted]
    news = sum(one.diff.news for one in found if one.diff is not None)
    if news:
        told.append(("regression", f"{news} {'op is' if news == 1 else 'ops are'} worse than in the previous night"))
    failing = sum(one.failing for one in found)
    if failing:
        told.append(("failure", f"{failing} {'op fails' if failing == 1 else 'ops fail'} without a known reason"))
    told += [("partial", f"{one.series}: missing {one.missing}") for one in found if one.status == "partial"]
    if delivered.spooled:
        count = len(delivered.spooled)
        runs = "1 run waits" if count == 1 else f"{count} runs wait"
        told.append(("spooled", f"the database could not be reached; {runs} in the spool ({delivered.away})"))
    told += [("refused", line) for line in delivered.refused]
    problems = tuple(Problem(kind, text, policy[kind] == "fail") for kind, text in told)
    labels = {label for one in found if one.diff is not None for label, count in one.diff.counts.items() if count}
    changed = bool(labels & {str(label) for label in CHANGES}) or any(problem.fails for problem in problems)
    return Verdict(problems, changed)


def headline(found: Sequence[Found], verdict: Verdict) -> str:
    """The night in a few words."""
    if any(problem.kind == "no_data" for problem in verdict.problems) and not any(one.attempted for one in found):
        return "no data"
    counts = {label: sum(one.diff.counts.get(label, 0) for one in found if one.diff is not None) for label in CHANGES}
    news = sum(one.diff.news for one in found if one.diff is not None)
    words = [f"{news} worse" if news else "", f"{counts[Label.FIXED]} fixed" if counts[Label.FIXED] else ""]
    if any(one.status == "partial" for one in found):
        words.append("partial")
    if not any(words):
        words = ["nothing changed" if any(one.diff is not None for one in found) else "first night"]
    return ", ".join(word for word in words if word)
