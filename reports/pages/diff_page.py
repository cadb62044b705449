"""Prints a comparison of two runs in the terminal."""

from __future__ import annotations

from pathlib import Path

from opscope.base.labels import NEWS
from opscope.base.page import Page, percent
from opscope.base.statuses import TERMINAL
from opscope.base.visible_text import counted, one_line
from opscope.harness.record.causes import short
from opscope.harness.record.isolation import lines as isolation_lines
from opscope.reports.compare.changed_causes import ChangedCause, counts_of, error_of, sections_of, turn
from opscope.reports.compare.commit_range import named
from opscope.reports.compare.diff import Diff, Row
from opscope.reports.compare.lowered_differently import Lowered

MOST = 30
"""Largest number of causes and rows per label; `--json` and the report have them all."""
FEW = 3
"""So many ops of a cause are named, unless it is the only one that was asked for."""


def show_cause(diff: Diff, page: Page, most: int = MOST) -> None:
    """Prints the rows of the one cause that a comparison was narrowed to (`of_cause`)."""
    page.line(f"{diff.a.run_id} .. {diff.b.run_id}  {diff.b.series}", "bold")
    _sections(diff, page, most, few=most)


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
    _programs(diff, page, most)
    counts = "  ".join(f"{change} {count}" for change, count in counts_of(diff).items())
    page.prose(counts or (f"nothing here belongs to {team}" if team else "no op in either run"), "bold")
    _sections(diff, page, most, FEW)
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
        page.line(f"{title} ({len({op_id for group in groups for op_id in group.ops})})", "bold")
        for group in groups[:most]:
            page.prose(f"{len(group.ops)}  {group.what}", indent=2)
            for place in group.places[:FEW]:
                page.prose(place.text, indent=4)
            if len(group.places) > FEW:
                page.line(f"and {len(group.places) - FEW} more; see --json", indent=4)
            page.prose(f"smallest: {group.smallest} [{group.ops[0]}]", indent=4)
            page.line(group.command, "dim", indent=4)
        if len(groups) > most:
            page.line(f"and {len(groups) - most} more ways; see --limit, --json", indent=2)
    page.line()


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


def _programs(diff: Diff, page: Page, most: int) -> None:
    if not diff.programs:
        return
    page.line()
    page.line(f"Whole models of which the compiler made another program ({len(diff.programs)})", "bold")
    for program in diff.programs[:most]:
        page.prose(program.text, indent=2)
    if len(diff.programs) > most:
        page.line(f"and {len(diff.programs) - most} more; see --limit, --json", indent=2)
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


def _sections(diff: Diff, page: Page, most: int, few: int) -> None:
    for section in sections_of(diff):
        page.line()
        page.line(section.heading, TERMINAL.get(section.tone, "bold"))
        for cause in section.causes[:most]:
            _cause(cause, page, few, whole=few == most)
        if left := sum(cause.ops for cause in section.causes[most:]):
            page.line(f"and {left} more; see --limit, --json", indent=2)


def _cause(cause: ChangedCause, page: Page, few: int, *, whole: bool) -> None:
    """`whole`: also the own words of each op for the same complaint."""
    first, heading = cause.first, cause.heading
    if heading:
        page.prose(cause.with_counts(heading, first.cluster), indent=2)
    if first.remark:
        page.prose(f"note: {one_line(first.remark)}", "bold", indent=4)
    if cause.ops > few:
        page.prose(f"{cause.names} in {', '.join(cause.models) or 'no model'}", indent=4)
    for row in cause.failures[:few]:
        page.prose(f"{row.op_name} [{row.op_id}] {row.types}", indent=4 if heading else 2)
        page.prose(_line_of_op(row, cause, whole=whole), "dim", indent=6 if heading else 4)
        if row.label in NEWS and row.repro:
            page.line(row.repro, "dim", indent=6 if heading else 4)
    if cause.ops > few:
        page.line(f"and {cause.ops - few} more: --cause {short(first.cluster)}", "dim", indent=4)


def _line_of_op(row: Row, cause: ChangedCause, *, whole: bool) -> str:
    """What happened to one op beyond what the heading says of the first op of its cause."""
    parts = [f"{counted(row.uses, 'use')} in {', '.join(row.models) or 'no model'}"]
    differs = row.status_b and row.status_a != row.status_b
    if differs and (not row.cluster or turn(row) != turn(cause.first)):
        parts.append(turn(row))
    if not row.cluster:
        parts += [f"owner {row.owner}"] if row.owner else []
        parts += [f"known: {row.known}"] if row.known else []
    parts += [row.note] if row.note else []
    own = "" if row.cluster and (not whole or error_of(row) == error_of(cause.first)) else error_of(row)
    return "; ".join(parts) + (f": {own}" if own else "")
