"""What there is to say of two runs or nights compared: what else changed, rates, and what changed cause by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from opscope.base.document.nodes import Cause, Causes, Column, Node, Op, Table, Words, grouped
from opscope.base.labels import CHANGES, LABELS, NEWS, QUIET, Label
from opscope.base.page import percent
from opscope.base.visible_text import counted
from opscope.harness.record import isolation
from opscope.reports.compare.commit_range import named
from opscope.reports.compare.diff import Diff, Rate, Row

FLAKY = "flaky: these do not fail the gate"


def document(diff: Diff, most: int, team: str | None = None) -> Iterator[Node]:
    """All of a comparison, or that none of its rows belongs to the team; at most `most` rows of a table."""
    for side, run in (("A", diff.a), ("B", diff.b)):
        yield Words(f"{side}  {run.run_id}  {', '.join(run.models)} on {run.name}, {counted(len(run.ops), 'op')}")
    if since := diff.since:
        authors = named(since.authors(Path.cwd()))
        yield Words(f"commits  {since.text}{f' by {authors}' if authors else ''}", link=since.url)
    if diff.changes:
        rows = [(c.what, *("none" if side in (None, "") else side for side in (c.a, c.b))) for c in diff.changes]
        yield Table([Column("changed"), Column("A"), Column("B")], rows)
    else:
        yield Words("Revisions, versions, models and options are the same in both.")
    yield _rates(diff)
    if diff.isolation:
        title = f"Ops whose verdict changes when they run alone ({len(diff.isolation)})"
        lines = isolation.lines(diff.isolation[:most])
        yield Table([Column("what"), Column("op")], lines, title, len(diff.isolation) - len(lines), "--json")
    if diff.programs:
        title = f"Whole models of which the compiler made another program ({len(diff.programs)})"
        programs = [(program.model, program.price, program.what) for program in diff.programs[:most]]
        columns = [Column("model"), Column("price"), Column("what changed")]
        yield Table(columns, programs, title, len(diff.programs) - len(programs), "--json")
    counts = "  ".join(f"{change} {count}" for change, count in counts_of(diff).items())
    yield Words(counts or (f"nothing here belongs to {team}" if team else "no op in either run"), "strong")
    yield from sections_of(diff)
    yield from (Words(f"note: {note}", "idle") for note in diff.notes)


def _rates(diff: Diff) -> Table:
    def cell(rate: Rate, what: str) -> str:
        right, attempted, share = (getattr(rate, f"{name}_{what}") for name in ("right", "attempted", "rate"))
        return f"{right} / {attempted}  {percent(share):>7}"

    places = ("ops_a", "ops_b", "uses_a", "uses_b")
    heads = [Column(f"{what} {side}", "right") for what in ("ops", "uses") for side in "AB"]
    rows = [
        (rate.scope, "" if rate.ran_on == "none" else rate.ran_on, *(cell(rate, place) for place in places))
        for rate in diff.rates
    ]
    return Table([Column("right of attempted"), Column("on", fillable=True), *heads], rows)


def counts_of(diff: Diff) -> dict[str, int]:
    """How many ops there are of each change, as the sections count them: `NEW 3, FIXED 1, known or flaky 1`."""
    counts = Counter(row.change for row in diff.rows)
    return {change: counts[change] for change in CHANGES if counts[change]}


def sections_of(diff: Diff) -> list[Causes]:
    """What changed, the most urgent label first, and what came and went by itself; without what is only counted."""
    listed = [row for row in diff.rows if row.label not in QUIET]
    parts = [
        (str(label), LABELS[label].tone, [r for r in listed if r.label == label and not r.flaky]) for label in Label
    ]
    parts.append((FLAKY, "", [row for row in listed if row.flaky]))
    return [_section(title, tone, rows) for title, tone, rows in parts if rows]


def _section(title: str, tone: str, rows: list[Row]) -> Causes:
    counts = {
        "of them expected failures": sum(bool(row.known) for row in rows),
        "acknowledged": sum(row.acknowledged for row in rows),
    }
    return Causes(title, causes_of(rows), tone, [f"{count} {what}" for what, count in counts.items() if count])


def causes_of(rows: Iterable[Row]) -> list[Cause]:
    """Rows by cause; of those without an error the ones of which the same is said are one, with an empty id."""
    causes = grouped(rows, lambda row: (row.cluster or _wording(row), row.known, row.owner), _cause, _op)
    return [cause if cause.cause or cause.count > 1 else replace(cause, what="") for cause in causes]


def _wording(row: Row) -> tuple[str, str]:
    """The label of an op without an error, and all that is said of it."""
    return row.label, "; ".join(filter(None, (_turn(row), row.note)))


def _cause(row: Row) -> Cause:
    drop, at = row.label == Label.PCC_DROP, row.failed_stage if row.status_b else ""
    turn = _turn(row) or row.status_b
    what = "less exact than before" if drop else f"{turn} at {at}" if at else turn
    return Cause(
        cause=row.cluster,
        what=what if row.cluster else _wording(row)[1],
        error="" if drop else _error(row),
        stage=row.failed_stage,
        owner=row.owner,
        known=row.known,
        note=row.remark,
        acknowledged=row.acknowledged,
        label=row.label,
        tone=LABELS[row.label].tone,
        flaky=row.flaky,
    )


def _op(row: Row) -> Op:
    where = f"{counted(row.uses, 'use')} in {', '.join(row.models) or 'no model'}"
    repro = row.repro if row.label in NEWS else ""
    return Op(row.op_id, row.op_name, row.types, row.uses, where, _error(row), _turn(row), row.note, repro, row.models)


def _turn(row: Row) -> str:
    """`success -> wrong_result`; empty for an op that ended as before."""
    return f"{row.status_a or 'absent'} -> {row.status_b or 'absent'}" if row.status_a != row.status_b else ""


def _error(row: Row) -> str:
    """The error that the row is about: that of the later run, and of the earlier where that is fixed."""
    return row.error_b or (row.error_a if row.label == Label.FIXED else "")
