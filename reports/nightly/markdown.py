"""The summary of a night or of a gate as markdown: for a pull request, a chat message, a job's page.

What records say is text: whatever could be markup in a model's name or an error is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opscope.reports.compare.diff import NEWS, Label, Row
from opscope.reports.compare.unblock import Fix, plan
from opscope.reports.nightly.delivery import Delivered
from opscope.reports.nightly.findings import Found
from opscope.reports.nightly.verdict import Verdict
from opscope.reports.records.terminal import percent

MOST_ROWS = 20
"""Rows per table: GitHub takes 65,536 characters in a comment, chat systems fewer."""
MOST_FIXES = 5
LONGEST = 160
"""Characters of an error."""

LISTED = (Label.NEW, Label.REASON_CHANGED, Label.PCC_DROP)
"""Labels whose rows are listed with what they say; the others are counted."""


@dataclass(frozen=True)
class Page:
    """What a summary is made of."""

    title: str
    found: Sequence[Found]
    verdict: Verdict
    delivered: Delivered | None = None
    notes: Sequence[str] = ()
    """Lines below everything: what went wrong on the way."""
    links: Sequence[tuple[str, str]] = field(default=())
    """(word, place) of what can be opened."""
    ranked: bool = True
    """Whether it says what to fix first."""
    root: str = ""
    """Folder whose path is left out of command lines: they are given in a checkout of one's own."""


def text(page: Page) -> str:
    """The summary, as GitHub's markdown."""
    parts = [f"# {escaped(page.title)}", *_verdict(page.verdict), _series(page.found)]
    for label in LISTED:
        parts += _rows(label, [(one, row) for one in page.found for row in _of(one, label)], page)
    parts += _fixed(page.found)
    parts += _fixes(page.found) if page.ranked else []
    notes = [*page.notes, *(f"{one.series}: {note}" for one in page.found if one.diff for note in _notes(one))]
    if page.delivered is not None and page.delivered.from_spool:
        count = len(page.delivered.from_spool)
        notes.append(f"{count} {'run' if count == 1 else 'runs'} arrived that had waited for the database")
    parts += ["\n".join(f"- {escaped(note)}" for note in notes)] if notes else []
    links = [f"[{escaped(word)}]({place})" if re.match(r"https?://", place) else f"{escaped(word)}: {code(place)}"
             for word, place in page.links]  # fmt: skip
    parts += ["  \n".join(links)] if links else []
    return "\n\n".join(part for part in parts if part) + "\n"


def _notes(one: Found) -> Iterable[str]:
    """What the comparison says besides its rows: what changed, which compile times were not judged."""
    assert one.diff is not None
    yield from (f"{change['what']}: {change['a']} → {change['b']}" for change in one.diff.changes)


def _verdict(verdict: Verdict) -> list[str]:
    told = [f"- {'❌' if problem.fails else '⚠️'} {problem.kind.replace('_', ' ')}: {escaped(problem.text)}"
            for problem in verdict.problems]  # fmt: skip
    return ["\n".join(told)] if told else ["✅ nothing needs attention"]


# --- tables


def _series(found: Sequence[Found]) -> str:
    heads = ("backend, board, options", "status", "models", "ops right", "like for like", "worse", "fixed", "known",
             "compared with")  # fmt: skip
    return table(heads, [_series_row(one) for one in found])


def _series_row(one: Found) -> list[str]:
    rate = percent(one.right / one.attempted) if one.attempted else "-"
    counts = one.diff.counts if one.diff is not None else {}
    alike = ""
    if one.diff is not None:
        some = [row for row in one.diff.rates if row["scope"] == "like for like"]
        alike = ", ".join(f"{percent(row['rate_ops_a'])} → {percent(row['rate_ops_b'])}"
                          + (f" on {row['ran_on']}" if len(some) > 1 else "") for row in some)  # fmt: skip
    return [
        escaped(one.series),
        "complete" if one.status == "complete" else "**partial**",
        f"{one.models['ran']} of {one.models['asked']}",
        f"{one.right} of {one.attempted} ({rate})",
        alike,
        str(one.diff.news) if one.diff is not None else "",
        str(counts.get(Label.FIXED, 0)) if one.diff is not None else "",
        str(one.known),
        escaped(one.previous) or "nothing, as it is the first",
    ]


def _of(one: Found, label: Label) -> list[Row]:
    rows = one.diff.rows if one.diff is not None else ()
    return [row for row in rows if row.label == label and row.label in NEWS]


def _rows(label: Label, rows: Sequence[tuple[Found, Row]], page: Page) -> list[str]:
    """The rows of one label that count; known and flaky ones in one line below."""
    news = [(one, row) for one, row in rows if row.news]
    apart = len(rows) - len(news)
    if not rows:
        return []
    parts = [f"## {label} ({len(news)})"]
    if news:
        several = len(page.found) > 1
        owned = any(row.owner for _, row in news)
        heads = ["op", "types", *(["on"] if several else []), "models", "at", "error message",
                 *(["owner"] if owned else []), "command"]  # fmt: skip
        cells = [_row(row, _lane(one) if several else "", owned, page.root) for one, row in news[:MOST_ROWS]]
        parts.append(table(heads, cells))
    if len(news) > MOST_ROWS:
        parts.append(f"and {len(news) - MOST_ROWS} more; see {code('opscope diff')}")
    if apart:
        parts.append(f"{apart} more, known or flaky, {'does' if apart == 1 else 'do'} not fail the night.")
    return parts


def _lane(one: Found) -> str:
    """Backend and board of a series, and the format where it has one."""
    assert one.diff is not None
    told = (one.diff.b.backend, one.diff.b.arch, one.diff.b.origin["options"].get("data_format"))
    return " ".join(str(word) for word in told if word)


def _row(row: Row, series: str, owned: bool, root: str) -> list[str]:
    said = row.note if row.label == Label.PCC_DROP else row.error_b or row.status_b.replace("_", " ")
    if row.label == Label.PCC_DROP and not said:
        said = f"PCC {row.pcc_a} → {row.pcc_b}"
    models = row.models[:3] + ((f"and {len(row.models) - 3} more",) if len(row.models) > 3 else ())
    return [
        f"{code(row.op_name)} {code(row.op_id)}",
        code(row.types),
        *([escaped(series)] if series else []),
        escaped(", ".join(models)),
        escaped(row.failed_stage),
        escaped(shortened(said)),
        *([escaped(row.owner)] if owned else []),
        code(row.repro.replace(f"{root}/", "") if root else row.repro),
    ]


def _fixed(found: Sequence[Found]) -> list[str]:
    rows = [row for one in found if one.diff for row in one.diff.rows if row.label == Label.FIXED]
    if not rows:
        return []
    names = [f"{code(row.op_name)} ({escaped(', '.join(row.models[:3]))})" for row in rows[:MOST_ROWS]]
    more = f" and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return [f"**FIXED ({len(rows)})**: {', '.join(names)}{more}"]


def _fixes(found: Sequence[Found]) -> list[str]:
    """What would help most, over the series that have it."""
    rows = []
    for one in found:
        if one.view is None:
            continue
        best: Sequence[Fix] = plan(dict.fromkeys(one.view.models, one.view)).fixes[:MOST_FIXES]
        rows += [[escaped(one.series), escaped(fix.fix), ", ".join(map(code, fix.op_names[:3])), str(len(fix.models)),
                  str(fix.uses), escaped(shortened(fix.error))] for fix in best]  # fmt: skip
    if not rows:
        return []
    heads = ("backend, board, options", "cause", "ops", "models blocked", "uses", "error message")
    return ["<details><summary>What to fix first</summary>", table(heads, rows), "</details>"]


# --- text


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are markdown already. Empty without a row."""
    lines = [" | ".join(row) for row in rows]
    if not lines:
        return ""
    return "\n".join(f"| {line} |" for line in (" | ".join(heads), " | ".join("---" for _ in heads), *lines))


def escaped(told: str) -> str:
    """A text of somebody else as markdown that shows it: no markup, no mention, no new line, no new column."""
    line = shown_line(told)
    line = re.sub(r"([\\`*\[\]#|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", line)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A zero-width space keeps `@name` from calling somebody, and an address from becoming a link.
    return line.replace("@", "@\u200b").replace("://", ":\u200b//")


def code(told: str) -> str:
    """A text of somebody else as code; it can end neither the code nor the column."""
    line = shown_line(told)
    if not line:
        return ""
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|')}{space}{fence}"


def shown_line(told: str) -> str:
    """One line without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in told).split())


def shortened(told: str) -> str:
    """An error in the length that a table bears."""
    line = shown_line(told)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
