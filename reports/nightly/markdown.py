"""The summary of a night or of a gate as markdown: for a pull request, a chat message, a job's page.

Texts from records, such as names of models and errors, are escaped so that they cannot act as markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opscope.base.document.as_markdown import code, escaped, of_causes, rendered
from opscope.base.document.nodes import Column, Table, Words
from opscope.base.labels import COMPLETE, NEWS, Label
from opscope.base.page import percent
from opscope.base.visible_text import counted
from opscope.harness.record.causes import short
from opscope.reports.compare.changed_causes import causes_of
from opscope.reports.compare.diff import Row
from opscope.reports.compare.first_sentence import Said, each_once
from opscope.reports.compare.to_fix import ranking
from opscope.reports.compare.unblock import plan
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import SeriesResult
from opscope.reports.nightly.verdict import Verdict

MOST_ROWS = 20
"""Rows per table: GitHub takes 65,536 characters in a comment, chat systems fewer."""
MOST_FIXES = 5


@dataclass(frozen=True)
class Page:
    """The content of a summary."""

    title: str | Said
    results: Sequence[SeriesResult]
    verdict: Verdict
    delivered: Delivered | None = None
    notes: Sequence[str] = ()
    """Lines at the end: problems of the night itself."""
    links: Sequence[tuple[str, str]] = field(default=())
    """(text, address) of each link."""
    ranked: bool = True
    """Whether the summary lists what to fix first."""


def text(page: Page) -> str:
    """The summary, as GitHub's markdown."""
    head, *lines = str(page.title).splitlines()
    parts = [f"# {escaped(head)}", *map(escaped, lines), *_verdict(page.verdict)]
    parts.append(rendered(Table(SERIES, [_series(result) for result in page.results])))
    for label in (label for label in Label if label in NEWS):
        parts += _rows(label, page.results)
    parts += _fixed(page.results)
    parts += _fixes(page.results) if page.ranked else []
    notes = [
        *page.notes,
        *(f"{result.name}: {note}" for result in page.results if result.diff for note in _notes(result)),
    ]
    if page.delivered is not None and page.delivered.from_spool:
        count = len(page.delivered.from_spool)
        notes.append(f"{counted(count, 'run')} arrived that had waited for the database")
    parts += ["\n".join(f"- {escaped(note)}" for note in notes)] if notes else []
    links = [
        f"[{escaped(word)}]({place})" if re.match(r"https?://", place) else f"{escaped(word)}: {code(place)}"
        for word, place in page.links
    ]
    parts += ["  \n".join(links)] if links else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _notes(result: SeriesResult) -> Iterable[str]:
    """What else changed between the compared nights, such as versions."""
    assert result.diff is not None
    yield from (f"{change.what}: {_side(change.a)} → {_side(change.b)}" for change in result.diff.changes)


def _side(value: object) -> object:
    return "none" if value in (None, "") else value


def _verdict(verdict: Verdict) -> list[str]:
    lines = [
        f"- {'❌' if problem.fails else '⚠️'} {problem.kind.replace('_', ' ')}: {escaped(problem.text)}"
        for problem in verdict.problems
    ]
    return ["\n".join(lines)] if lines else ["✅ nothing needs attention"]


# --- tables


SERIES = [
    Column(head) for head in ("series", "status", "models", "ops right", "like for like", "worse", "fixed", "known")
]
SERIES += [Column("compared with"), Column("commits")]


def _series(result: SeriesResult) -> list[Any]:
    rate, diff = percent(result.right / result.attempted) if result.attempted else "-", result.diff
    rates = [row for row in diff.rates if row.scope == "like for like"] if diff is not None else []
    like_for_like = ", ".join(
        f"{percent(row.rate_ops_a)} → {percent(row.rate_ops_b)}" + (f" on {row.ran_on}" if len(rates) > 1 else "")
        for row in rates
    )
    since = diff.since if diff is not None else None
    return [
        result.name,
        Words(result.status, "" if result.status == COMPLETE else "strong"),
        f"{result.models['ran']} of {result.models['asked']}",
        f"{result.right} of {result.attempted} ({rate})",
        like_for_like,
        "" if diff is None else diff.news,
        "" if diff is None else sum(row.change == Label.FIXED for row in diff.rows),
        result.known,
        result.previous or "nothing, as it is the first",
        "" if since is None else Words(since.text, link=since.url),
    ]


def _of(result: SeriesResult, label: Label) -> list[Row]:
    rows = result.diff.rows if result.diff is not None else ()
    return [row for row in rows if row.label == label]


def _rows(label: Label, results: Sequence[SeriesResult]) -> list[str]:
    """The table of one label, a line for each cause; expected and flaky rows are only counted below it."""
    rows = [(result, row) for result in results for row in _of(result, label)]
    news = [(result.series, row.op_id) for result, row in rows if row.news]
    quiet = [row for _, row in rows if row.acknowledged and not row.known and not row.flaky]
    apart = len(rows) - len(news) - len(quiet)
    if not rows:
        return []
    count, of_results = each_once(news)
    parts = [f"## {label} ({count}{of_results and f': {of_results}'})"]
    if news:
        of_series = [(result, causes_of(row for row in _of(result, label) if row.news)) for result in results]
        causes = [(cause, result.name if len(results) > 1 else "") for result, causes in of_series for cause in causes]
        causes.sort(key=lambda one: -one[0].uses)
        parts.append(rendered(of_causes(causes, MOST_ROWS, "opscope diff")))
    for cause in causes_of(quiet):
        parts.append(f"{counted(cause.count, 'op')} of cause {code(short(cause.cause))}: {escaped(cause.note)}")
    if apart:
        parts.append(f"{apart} more, known or flaky, {'does' if apart == 1 else 'do'} not fail the night.")
    return parts


def _fixed(results: Sequence[SeriesResult]) -> list[str]:
    every = [(each.series, row) for each in results for row in _of(each, Label.FIXED) if row.change == Label.FIXED]
    if not every:
        return []
    count, of_series = each_once((series, row.op_id) for series, row in every)
    rows = {row.op_id: row for _, row in every}.values()
    alike = Counter((row.op_name, row.models[:3]) for row in rows)
    names = [
        f"{code(name)} ({escaped(', '.join(models))}{f': {ops} ops' if ops > 1 else ''})"
        for (name, models), ops in [*alike.items()][:MOST_ROWS]
    ]
    left = sum([*alike.values()][MOST_ROWS:])
    more = f" and {left} more" if left else ""
    return [f"**FIXED ({count}{of_series and f': {of_series}'})**: {', '.join(names)}{more}"]


def _fixes(results: Sequence[SeriesResult]) -> list[str]:
    """The fixes that help most, of every series that has a run."""
    parts = []
    for series in results:
        if series.view is None:
            continue
        ranked = ranking(plan(dict.fromkeys(series.view.models, series.view)), MOST_FIXES)
        ranked = replace(ranked, title="", left_out=0)
        if ranked.rows:
            parts += [f"**{escaped(series.name)}**"] * (len(results) > 1) + [rendered(ranked)]
    return ["<details><summary>What to fix first</summary>", *parts, "</details>"] if parts else []
