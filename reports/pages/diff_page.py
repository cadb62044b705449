"""Prints a comparison of two runs in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from opscope.base.labels import LABELS, NEWS, QUIET, Label
from opscope.base.page import Page, percent
from opscope.base.statuses import TERMINAL
from opscope.base.visible_text import one_line
from opscope.harness.record.causes import by_cause, short
from opscope.harness.record.isolation import lines as isolation_lines
from opscope.reports.compare.commit_range import named
from opscope.reports.compare.diff import Diff, Row
from opscope.reports.compare.lowered_differently import Lowered

MOST = 30
"""Largest number of causes and rows per label; `--json` and the report have them all."""
FEW = 3
"""So many ops of a cause are named, unless it is the only one that was asked for."""

SHOWN = tuple(label for label in Label if label not in QUIET)


def show_cause(diff: Diff, page: Page, most: int = MOST) -> None:
    """Prints the rows of the one cause that a comparison was narrowed to (`of_cause`)."""
    page.line(f"{diff.a.run_id} .. {diff.b.run_id}  {diff.b.series}", "bold")
    _labels(diff, page, most, few=most)


def show(diff: Diff, page: Page, most: int = MOST, team: str | None = None) -> None:
    """Prints the comparison, or that none of its rows belongs to the team."""
    for side, run in (("A", diff.a), ("B", diff.b)):
        page.prose(f"{side}  {run.run_id}  {', '.join(run.models)} on {run.on}, {len(run.ops)} ops")
    if since := diff.since:
        authors = named(since.authors(Path.cwd()))
        page.prose(f"commits  {since.text}{f' by {authors}' if authors else ''}{f'  {since.url}' if since.url else ''}")
    _changes(diff, page)
    _rates(diff, page)
    _isolation(diff, page, most)
    counts = "  ".join(f"{label} {count}" for label, count in diff.counts.items())
    page.prose(counts or (f"nothing here belongs to {team}" if team else "no op in either run"), "bold")
    _labels(diff, page, most, FEW)
    for note in diff.notes:
        page.prose(f"note: {note}", "dim")


def show_lowered(lowered: Lowered, page: Page, most: int = MOST) -> None:
    """Prints what two releases lower, compute and abort differently, if their runs have kept what they made of ops."""
    if not lowered.sentence:
        return
    page.prose(lowered.sentence, "bold")
    for title, groups in (
        ("lower differently", lowered.lowering),
        ("compute differently", lowered.computing),
        ("compile or abort differently", (*lowered.compiling, *lowered.aborting)),
    ):
        if not groups:
            continue
        page.line(f"{title} ({sum(len(group.ops) for group in groups)})", "bold")
        for group in groups[:most]:
            page.prose(f"{len(group.ops)}  {group.what}", indent=2)
            page.prose(f"{group.smallest} [{group.ops[0]}]", indent=4)
            page.line(group.command, "dim", indent=4)
        if len(groups) > most:
            page.line(f"and {len(groups) - most} more ways; see --limit, --json", indent=2)
    page.line()


def _labels(diff: Diff, page: Page, most: int, few: int) -> None:
    for label in SHOWN:
        rows = [row for row in diff.rows if row.label == label and not row.flaky]
        if rows:
            _rows(label, rows, page, most, few)
    flaky = [row for row in diff.rows if row.flaky and row.label not in QUIET]
    if flaky:
        _rows("flaky: these do not fail the gate", flaky, page, most, few)


def _isolation(diff: Diff, page: Page, most: int) -> None:
    if not diff.isolation:
        return
    page.line()
    page.line(f"Ops whose verdict changes when they run alone ({len(diff.isolation)})", "bold magenta")
    for label, text in isolation_lines(diff.isolation[:most]):
        page.line(label, indent=2)
        page.line(text, "dim", indent=4)
    if len(diff.isolation) > most:
        page.line(f"and {len(diff.isolation) - most} more; see --limit, --json", indent=2)
    page.line()


def _changes(diff: Diff, page: Page) -> None:
    if not diff.changes:
        page.line("Revisions, versions, models and options are the same in both.")
        return
    page.table(
        [("changed", ""), ("A", ""), ("B", "")],
        [(c.what, *("none" if side in (None, "") else side for side in (c.a, c.b))) for c in diff.changes],
    )


def _rates(diff: Diff, page: Page) -> None:
    columns = [
        ("right of attempted", ""),
        ("on", ""),
        ("ops A", "right"),
        ("ops B", "right"),
        ("uses A", "right"),
        ("uses B", "right"),
    ]
    rows = [
        (
            rate.scope,
            "" if rate.ran_on == "none" else rate.ran_on,
            f"{rate.right_ops_a} / {rate.attempted_ops_a}  {percent(rate.rate_ops_a):>7}",
            f"{rate.right_ops_b} / {rate.attempted_ops_b}  {percent(rate.rate_ops_b):>7}",
            f"{rate.right_uses_a} / {rate.attempted_uses_a}  {percent(rate.rate_uses_a):>7}",
            f"{rate.right_uses_b} / {rate.attempted_uses_b}  {percent(rate.rate_uses_b):>7}",
        )
        for rate in diff.rates
    ]
    page.table(columns, rows, fillable=("on",))


def _rows(title: str, rows: list[Row], page: Page, most: int, few: int) -> None:
    style = TERMINAL[LABELS[title].tone] if title in LABELS else "bold"
    expected = sum(bool(row.known) for row in rows)
    page.line()
    acknowledged = sum(row.acknowledged for row in rows)
    counts = [f"{expected} of them expected failures"] if expected else []
    counts += [f"{acknowledged} acknowledged"] if acknowledged else []
    page.line(f"{title} ({', '.join([str(len(rows)), *counts])})", style)
    causes = by_cause(rows, _cause, lambda row: row.uses)
    for cause in causes[:most]:
        heading = _heading(cause.first)
        if heading:
            page.prose(cause.with_counts(heading, cause.first.cluster), indent=2)
        if cause.first.remark:
            page.prose(f"note: {one_line(cause.first.remark)}", "bold", indent=4)
        if cause.ops > few:
            page.prose(f"{_op_names(cause.failures)} in {_models(cause.failures)}", indent=4)
        for row in cause.failures[:few]:
            page.prose(f"{row.op_name} [{row.op_id}] {row.types}", indent=4 if heading else 2)
            page.prose(_line_of_op(row, cause.first, whole=few == most), "dim", indent=6 if heading else 4)
            if row.label in NEWS and row.repro:
                page.line(row.repro, "dim", indent=6 if heading else 4)
        if cause.ops > few:
            page.line(f"and {cause.ops - few} more: --cause {short(cause.first.cluster)}", "dim", indent=4)
    if len(causes) > most:
        left = sum(cause.ops for cause in causes[most:])
        page.line(f"and {left} more; see --limit, --json", indent=2)


def _op_names(rows: Sequence[Row]) -> str:
    """`stablehlo.add (3), stablehlo.abs`: the names of the ops of a cause, the most frequent first."""
    return ", ".join(
        f"{name} ({count})" if count > 1 else name for name, count in Counter(row.op_name for row in rows).most_common()
    )


def _models(rows: Sequence[Row]) -> str:
    return ", ".join(sorted({model for row in rows for model in row.models})) or "no model"


def _cause(row: Row) -> tuple[str, ...]:
    """What is equal for rows with one cause; rows without an error are each their own."""
    if not row.cluster:
        return (row.op_id,)
    return (row.cluster, row.status_a, row.status_b, row.failed_stage, row.known, row.owner)


def _error(row: Row) -> str:
    return row.error_b or (row.error_a if row.label == Label.FIXED else "")


def _heading(row: Row) -> str:
    """What is the same for all rows of a cause; empty for a row without an error."""
    if not row.cluster:
        return ""
    if row.label == Label.PCC_DROP:
        return "; ".join(filter(None, ["less exact than before", f"owner {row.owner}" if row.owner else ""]))
    change = f"{row.status_a or 'absent'} -> {row.status_b}" if row.status_a != row.status_b else row.status_b
    parts = [change + (f" at {row.failed_stage}" if row.failed_stage and row.status_b else "")]
    parts += [f"owner {row.owner}"] if row.owner else []
    parts += [f"known: {row.known}"] if row.known else []
    return "; ".join(filter(None, parts)) + (f": {_error(row)}" if _error(row) else "")


def _line_of_op(row: Row, first: Row, whole: bool) -> str:
    """What happened to one op beyond what `_heading` says of the first op of its cause; `whole`: also its own words
    for the same complaint."""
    parts = [f"{row.uses} use{'' if row.uses == 1 else 's'} in {', '.join(row.models) or 'no model'}"]
    if not row.cluster:
        if row.status_b and row.status_a != row.status_b:
            parts.append(f"{row.status_a or 'absent'} -> {row.status_b}")
        parts += [f"owner {row.owner}"] if row.owner else []
        parts += [f"known: {row.known}"] if row.known else []
    parts += [row.note] if row.note else []
    own = "" if row.cluster and (not whole or _error(row) == _error(first)) else _error(row)
    return "; ".join(parts) + (f": {own}" if own else "")
