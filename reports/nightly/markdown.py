"""The summary of a night or of a gate as markdown: for a pull request, a chat message, a job's page.

Texts from records, such as names of models and errors, are escaped so that they cannot act as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from opscope.base.labels import COMPLETE, NEWS, Label
from opscope.base.page import percent
from opscope.base.visible_text import counted, one_line
from opscope.harness.record.causes import short
from opscope.harness.record.signature import shorten
from opscope.reports.compare.changed_causes import causes_of
from opscope.reports.compare.diff import Row
from opscope.reports.compare.document import NAMES, Cause, Table
from opscope.reports.compare.first_sentence import Said, each_once
from opscope.reports.compare.to_fix import ranking
from opscope.reports.compare.unblock import plan
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import SeriesResult
from opscope.reports.nightly.verdict import Verdict

MOST_ROWS = 20
"""Rows per table: GitHub takes 65,536 characters in a comment, chat systems fewer."""
MOST_FIXES = 5
SPARE = ("on", "owner")
LONGEST = 160
"""Characters of an error."""
_ACTS = re.compile(r"@|:(?=//|[\w+-]+:)|[#!$](?=\d)|[%~](?=[\w\"])|&amp;(?=\d)|\bwww(?=\.)|\bGH-(?=\d)", re.IGNORECASE)
"""What a zero-width space behind it keeps from acting: `@name`, addresses, `:emoji:`, references such as `#12`. It is
spelled out, so that what a terminal shows can be posted."""


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
    parts = [f"# {escaped(head)}", *map(escaped, lines), *_verdict(page.verdict), _series(page.results)]
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


def _series(results: Sequence[SeriesResult]) -> str:
    heads = (
        "series",
        "status",
        "models",
        "ops right",
        "like for like",
        "worse",
        "fixed",
        "known",
        "compared with",
        "commits",
    )
    return table(heads, [_series_row(result) for result in results])


def _series_row(result: SeriesResult) -> list[str]:
    rate = percent(result.right / result.attempted) if result.attempted else "-"
    like_for_like = ""
    if result.diff is not None:
        rates = [row for row in result.diff.rates if row.scope == "like for like"]
        like_for_like = ", ".join(
            f"{percent(row.rate_ops_a)} → {percent(row.rate_ops_b)}" + (f" on {row.ran_on}" if len(rates) > 1 else "")
            for row in rates
        )
    return [
        escaped(result.name),
        COMPLETE if result.status == COMPLETE else f"**{result.status}**",
        f"{result.models['ran']} of {result.models['asked']}",
        f"{result.right} of {result.attempted} ({rate})",
        like_for_like,
        str(result.diff.news) if result.diff is not None else "",
        str(sum(row.change == Label.FIXED for row in result.diff.rows)) if result.diff is not None else "",
        str(result.known),
        escaped(result.previous) or "nothing, as it is the first",
        _commits(result),
    ]


def _commits(result: SeriesResult) -> str:
    """The commits since the night that it is compared with, as a link where their page is known."""
    since = result.diff.since if result.diff is not None else None
    if since is None:
        return ""
    return f"[{escaped(since.text)}]({since.url})" if since.url else escaped(since.text)


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
        heads = ("cause", "op", "types", "on", "models", "at", "error message", "owner", "command")
        parts.append(table(heads, [_row(*cause) for cause in causes[:MOST_ROWS]]))
        if more := sum(cause.count for cause, _ in causes[MOST_ROWS:]):
            parts.append(f"and {more} more; see {code('opscope diff')}")
    for cause in causes_of(quiet):
        parts.append(f"{counted(cause.count, 'op')} of cause {code(short(cause.cause))}: {escaped(cause.note)}")
    if apart:
        parts.append(f"{apart} more, known or flaky, {'does' if apart == 1 else 'do'} not fail the night.")
    return parts


def _row(cause: Cause, series: str) -> list[str]:
    """The line of a cause: its first op, and how many others it has."""
    op, told = cause.ops[0], cause.brief()
    models = [*told["models"], *([f"and {told['models_left_out']} more"] if "models_left_out" in told else [])]
    names = [name for name in dict.fromkeys(each.op_name for each in cause.ops) if name != op.op_name]
    others = f" and {cause.count - 1} more" if cause.count > 1 else ""
    others += f", also {', '.join(map(code, names[:3]))}{' …' * (len(names) > 3)}" if names else ""
    return [
        code(short(cause.cause)),
        f"{code(op.op_name)} {code(op.op_id)}{others}",
        code(op.types),
        escaped(series),
        escaped(", ".join(models)),
        escaped(cause.stage),
        escaped(shortened(told.get("error") or cause.what))
        + (f"<br>note: {escaped(cause.note)}" if cause.note else ""),
        escaped(cause.owner),
        code(op.repro),
    ]


def _fixed(results: Sequence[SeriesResult]) -> list[str]:
    every = [(each.series, row) for each in results for row in _of(each, Label.FIXED) if row.change == Label.FIXED]
    if not every:
        return []
    count, of_series = each_once((series, row.op_id) for series, row in every)
    rows = list({row.op_id: row for _, row in every}.values())
    names = [f"{code(row.op_name)} ({escaped(', '.join(row.models[:3]))})" for row in rows[:MOST_ROWS]]
    more = f" and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return [f"**FIXED ({count}{of_series and f': {of_series}'})**: {', '.join(names)}{more}"]


def _fixes(results: Sequence[SeriesResult]) -> list[str]:
    """The fixes that help most, of every series that has a run."""
    parts = []
    for series in results:
        if series.view is None:
            continue
        ranked = ranking(plan(dict.fromkeys(series.view.models, series.view)), MOST_FIXES)
        if ranked.rows:
            parts += [f"**{escaped(series.name)}**"] * (len(results) > 1) + [rendered(ranked)]
    return ["<details><summary>What to fix first</summary>", *parts, "</details>"] if parts else []


def rendered(node: Table) -> str:
    """A table of a document (compare/document.py)."""
    node = node.filled
    rows = [[_cell(cell, column.kind) for cell, column in zip(row, node.columns, strict=True)] for row in node.rows]
    return table([column.head for column in node.columns], rows)


def _cell(value: Any, kind: str) -> str:
    if kind == "names":
        return ", ".join(map(code, value[:NAMES])) + " …" * (len(value) > NAMES)
    if kind == "code":
        return code(value)
    return escaped(shortened(str(value)))


# --- text


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are markdown, without columns of SPARE in which nothing stands; empty without rows."""
    cells = list(rows)
    if not cells:
        return ""
    kept = [place for place, head in enumerate(heads) if head not in SPARE or any(row[place] for row in cells)]
    lines = [" | ".join(row[place] for place in kept) for row in cells]
    heads = [heads[place] for place in kept]
    return "\n".join(f"| {line} |" for line in (" | ".join(heads), " | ".join("---" for _ in heads), *lines))


def escaped(words: str) -> str:
    """A foreign text as markdown that shows it unchanged: no markup, mention, new line or new column."""
    line = shown_line(words)
    line = re.sub(r"([\\`*\[\]#|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", line)
    line = re.sub(r"^(\d*)([-+/.)])(?!\d)", r"\1\\\2", line)  # a list, or a command of GitLab's
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _ACTS.sub("\\g<0>&#8203;", line)


def code(words: str) -> str:
    """A foreign text as code; it cannot end the code or the column."""
    line = shown_line(words)
    if not line:
        return ""
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|')}{space}{fence}"


def shown_line(words: str) -> str:
    """One line, with escapes for characters that act."""
    return one_line(" ".join(words.split()))


def shortened(words: str) -> str:
    """An error, shortened to fit into a table."""
    return shorten(shown_line(words), LONGEST)
