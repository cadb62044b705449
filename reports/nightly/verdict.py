"""Decides by the policy whether a night fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opscope.base.document.groups import by_cause, short
from opscope.base.labels import BROKEN, NEWS, PARTIAL, Label
from opscope.reports.compare.diff import Diff
from opscope.reports.compare.first_sentence import each_once
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import SeriesResult

CHANGES = NEWS | {Label.FIXED, Label.VANISHED}
"""Labels that make a night worth a message."""


MOST_IMPORTS = 5
"""Imports that a summary names."""
MOST_PROGRAMS = 5
"""Models that a summary names since their programs changed."""


@dataclass(frozen=True)
class Problem:
    """A problem of a kind that the policy names."""

    kind: str
    """A key of `POLICY`, `acknowledged` or `compiled_otherwise`, which fail nothing, or `lost`, which always fails."""
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
    reasons += [("no_data", f"the backend may not work: {each}") for each in map(broken_line, results) if each]
    diffs = [(result.series, result.diff) for result in results if result.diff is not None]
    if regression := worse_than(diffs, "the previous night"):
        reasons.append(("regression", regression))
    if failing := [(result.series, op.op_id) for result in results for op in result.failing]:
        reasons.append(("failure", f"{_ops(failing, 'fails', 'fail')} without a known reason{_results(failing)}"))
    red = {model: text for result in results if result.view is not None for model, text in result.view.imports.items()}
    reasons += [("import", line) for line in import_lines(red)]
    reasons += [
        ("partial", f"{result.name}: missing {result.missing}") for result in results if result.status == PARTIAL
    ]
    if delivered.spooled:
        count = len(delivered.spooled)
        runs = "1 run waits" if count == 1 else f"{count} runs wait"
        reasons.append(("spooled", f"the database could not be reached; {runs} in the spool ({delivered.away})"))
    reasons += [("refused", line) for line in delivered.refused]
    problems = tuple(Problem(kind, text, policy[kind] == "fail") for kind, text in reasons)
    problems += tuple(Problem("lost", line, True) for line in delivered.lost)  # whatever the policy: nobody has it
    rows = [row for _, diff in diffs for row in diff.rows]
    changed = any(row.label in CHANGES and not row.acknowledged for row in rows)
    changed = changed or any(problem.fails for problem in problems)
    return Verdict((*problems, *acknowledged(diffs), *compiled_otherwise(diffs)), changed)


def broken_line(result: SeriesResult) -> str:
    """That a backend fails every op, and how; empty where it does not."""
    if result.status != BROKEN or result.view is None:
        return ""
    return f"all {result.attempted} ops fail on {result.name} with one text: {result.view.broken}"


def worse_than(diffs: Iterable[tuple[str, Diff]], night: str) -> str:
    """What is worse, of comparisons by series; empty if nothing is."""
    news = [(series, row.op_id) for series, diff in diffs for row in diff.rows if row.news]
    return f"{_ops(news, 'is', 'are')} worse than in {night}{_results(news)}" if news else ""


def acknowledged(diffs: Iterable[tuple[str, Diff]]) -> list[Problem]:
    """A line for each cause that fails anew and that somebody acknowledged: it is said, and fails nothing."""
    quiet = [(series, row) for series, diff in diffs for row in diff.rows if row.acknowledged and row.label in NEWS]
    problems = []
    for cause in by_cause(quiet, lambda one: one[1].cluster, lambda one: one[1].uses):
        ops, first = [(series, row.op_id) for series, row in cause.failures], cause.first[1]
        text = f"{_ops(ops, 'is', 'are')} worse{_results(ops)}, cause {short(first.cluster)}: {first.remark}"
        problems.append(Problem("acknowledged", text, False))
    return problems


def compiled_otherwise(diffs: Sequence[tuple[str, Diff]]) -> list[Problem]:
    """A line for each whole model of which the compiler made another program, those that cost more first."""
    programs = [(series, program) for series, diff in diffs for program in diff.programs]
    several = len({series for series, _ in programs}) > 1
    lines = [f"{program.text}{f' ({series})' if several else ''}" for series, program in programs[:MOST_PROGRAMS]]
    if len(programs) > MOST_PROGRAMS:
        lines.append(f"and {len(programs) - MOST_PROGRAMS} more models: opscope diff")
    return [Problem("compiled_otherwise", line, False) for line in lines]


def _ops(ops: Sequence[tuple[str, str]], one: str, several: str) -> str:
    """`28 ops are`: each counted once, as in the first sentence."""
    count, _ = each_once(ops)
    return f"1 op {one}" if count == 1 else f"{count} ops {several}"


def _results(ops: Sequence[tuple[str, str]]) -> str:
    _, results = each_once(ops)
    return f" ({results})" if results else ""


def import_lines(imports: Mapping[str, str]) -> list[str]:
    """A line for each of the first models whose imports are red (`RunView.imports`), and one for the rest."""
    lines = [f"{model}: {text}" for model, text in sorted(imports.items())]
    more = len(lines) - MOST_IMPORTS
    return lines[:MOST_IMPORTS] + [f"{more} more imports differ; see opscope show"] * (more > 0)
