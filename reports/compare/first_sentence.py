"""The first sentence about a night or a run: what is worse, for how many causes, since which commits, what to do first.

    nightly 2026-11-20 02:00, reference n150: 27 new failures, 3 causes, since a1b2c3d4..d4e5f6a7; first:
    broadcast_in_dim (team lowering, 8 models, cause 5d1f2a90)

`opscope diff`, the message and the summary of a night, report.html and the dashboards begin with it. It speaks for all
series that it names: an op that is worse in two of them counts once, and so does a cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sa

from opscope.base.labels import NEWS, NOW_BAD, QUIET, Label, change_of
from opscope.base.night_grid.grid import told_apart
from opscope.base.statuses import NOT_ATTEMPTED, RIGHT
from opscope.base.visible_text import cut
from opscope.harness.record.causes import short
from opscope.reports.compare.commit_range import CommitRange, range_of
from opscope.reports.compare.diff import Diff, labelled_rows
from opscope.reports.compare.night_views import newest_run
from opscope.reports.compare.outcomes import RunView
from opscope.reports.database.endings import DEFAULT
from opscope.reports.database.notes import read_notes
from opscope.reports.database.owners import Rule, owner
from opscope.reports.database.rows import RELEASE
from opscope.reports.database.schema import NIGHTS, OPS
from opscope.reports.database.schema_nights import NIGHT_CHANGES, NIGHT_COUNTS, NIGHT_SERIES
from opscope.reports.database.series_names import board_in

WORSE = {
    Label.NEW: "new failure",
    Label.REASON_CHANGED: "failing for another reason",
    Label.PCC_DROP: "less exact",
}
"""Label that fails a gate -> how its ops are called."""
MOST_NAMES = 2
"""So many names of a cause's ops are named."""


MOST_OF_NOTE = 120
"""Characters of a note that the sentence has."""


class Change(NamedTuple):
    """What happened to one op of a series since the run before."""

    label: str
    op_id: str
    op_name: str
    cause: str
    stage: str
    models: tuple[str, ...]
    uses: int
    known: bool
    """Whether a limitation names the failure."""
    flaky: bool
    remark: str = ""
    """What a note says of its cause."""
    acknowledged: bool = False
    """Whether that note acknowledges the cause."""

    @property
    def change(self) -> str:
        """What its label counts as."""
        return change_of(self.label, known=self.known, flaky=self.flaky, acknowledged=self.acknowledged)

    @property
    def alarms_later(self) -> bool:
        """Whether it would fail a gate if nobody had acknowledged its cause."""
        return self.acknowledged and self.label in NEWS and not self.known


@dataclass(frozen=True)
class SeriesFacts:
    """What the sentence needs of one series."""

    series: str
    place: str
    """Backend, its board if it has one, and the number format if one was asked for."""
    right: int
    attempted: int
    changes: tuple[Change, ...]
    first: bool
    """Whether there is nothing before it."""
    since: str
    """The commits since what it is compared with; empty if unknown."""
    partial: bool

    @property
    def news(self) -> list[Change]:
        """What fails a gate."""
        return [change for change in self.changes if change.change in NEWS]

    @property
    def failing(self) -> list[Change]:
        """What goes wrong, neither expected nor flaky."""
        bad = [change for change in self.changes if change.label in NOW_BAD]
        return [change for change in bad if not (change.known or change.flaky or change.acknowledged)]


# --- from a comparison, and from the database


def of_view(view: RunView, diff: Diff | None, partial: bool = False) -> SeriesFacts:
    """A run, or a night in one series, compared with what came before it, if anything did."""
    if diff is None:
        rows = [
            replace(row, label=Label.FIRST)
            for row in labelled_rows(replace(view, ops={}), view, None, QUIET)
            if row.label == Label.NEW
        ]
    else:
        rows = [row for row in diff.rows if row.label not in QUIET]
    used = [op for op in view.ops.values() if op.uses_of]
    return SeriesFacts(
        view.series,
        place_of(view.backend, view.board, view.origin["options"].get("data_format")),
        sum(op.right for op in used),
        sum(op.attempted for op in used),
        tuple(
            Change(
                row.label,
                row.op_id,
                row.op_name,
                row.cluster,
                row.failed_stage,
                row.models,
                row.uses,
                bool(row.known),
                row.flaky,
                row.remark,
                row.acknowledged,
            )
            for row in rows
        ),
        diff is None,
        _text(None if diff is None else diff.since),
        partial or bool(view.missing),
    )


def of_missing(series: str, place: str, previous: str) -> SeriesFacts:
    """A series of a night that has no run; `previous` is the night before it, if there is one."""
    return SeriesFacts(series, place, 0, 0, (), not previous, "", True)


def place_asked_for(connection: sa.Connection, backend: str, arch: str, data_format: str) -> str:
    """The place of a series without a run: with the board that the backend last had, else with the one asked for."""
    had = sa.select(NIGHT_SERIES.c.board).where(NIGHT_SERIES.c.board.is_not(None))
    had = had.where(NIGHT_SERIES.c.backend == backend, NIGHT_SERIES.c.arch == arch)
    board = connection.scalar(had.order_by(NIGHT_SERIES.c.started.desc()).limit(1))
    return place_of(backend, arch if board is None else board, data_format)


def of_night(connection: sa.Connection, night_id: str, series: str) -> SeriesFacts:
    """A night in one series, from what publishing counted of it."""
    this = (NIGHT_SERIES.c.night_id == night_id) & (NIGHT_SERIES.c.series == series)
    row = connection.execute(sa.select(NIGHT_SERIES).where(this)).mappings().one()
    label = connection.scalar(sa.select(NIGHTS.c.label).where(NIGHTS.c.night_id == night_id))
    notes, day = read_notes(connection), date_of(str(label))
    changed = (
        sa.select(NIGHT_CHANGES, OPS.c.op_name)
        .join(OPS, OPS.c.op_id == NIGHT_CHANGES.c.op_id)
        .where(NIGHT_CHANGES.c.night_id == night_id, NIGHT_CHANGES.c.series == series)
    )
    changes = tuple(
        Change(
            each["label"],
            each["op_id"],
            each["op_name"],
            each["cluster"],
            each["stage"],
            tuple(filter(None, each["models"].split(", "))),
            each["uses"],
            bool(each["known"]),
            each["flaky"],
            note.line(day) if note is not None else "",
            note is not None and note.quiets(day),
        )
        for each, note in ((each, notes.get(each["cluster"])) for each in connection.execute(changed).mappings())
    )
    counted = sa.select(NIGHT_COUNTS.c.status, sa.func.sum(NIGHT_COUNTS.c.ops)).where(
        NIGHT_COUNTS.c.night_id == night_id, NIGHT_COUNTS.c.series == series, NIGHT_COUNTS.c.model == ""
    )
    ops = {status: int(count) for status, count in connection.execute(counted.group_by(NIGHT_COUNTS.c.status))}
    previous, since = row["previous_night"], None
    if previous:
        old, new = newest_run(connection, previous, series), newest_run(connection, night_id, series)
        since = None if old is None or new is None else range_of(old, row["backend"], new, row["backend"])
    return SeriesFacts(
        series,
        place_of(row["backend"], board_in(connection, night_id, series, row["arch"]), row["data_format"]),
        sum(count for status, count in ops.items() if status in RIGHT),
        sum(count for status, count in ops.items() if status not in NOT_ATTEMPTED),
        changes,
        not previous,
        _text(since),
        row["status"] == "partial",
    )


def place_of(backend: str, board: str, data_format: str | None) -> str:
    """`reference n150`, `reference p150 Float16_b`, or the backend alone where it has neither."""
    return " ".join(filter(None, (backend, board, "" if data_format == DEFAULT else data_format)))


def _text(since: CommitRange | None) -> str:
    return "" if since is None else since.text


def head_of(connection: sa.Connection | None, views: Iterable[RunView]) -> str:
    """How the sentence begins: name and date of the night or run that the views are of."""
    views = list(views)
    nights: list[tuple[str, ...]] = []
    if connection is not None:
        these = NIGHTS.c.night_id.in_([view.run_id for view in views])
        releases = sa.select(NIGHTS.c.release).where(these, NIGHTS.c.kind == RELEASE).order_by(NIGHTS.c.started)
        if of := connection.scalars(releases).all():  # not by a date, which is only where it stands in its series
            return f"release {', '.join(dict.fromkeys(of))}"
        query = sa.select(NIGHTS.c.name, NIGHTS.c.label, NIGHTS.c.zone).where(these, NIGHTS.c.kind == "night")
        nights = [tuple(row) for row in connection.execute(query)]
    return head(nights or [(view.run_id, f"{view.started.astimezone(UTC):%Y-%m-%d %H:%M}", "UTC") for view in views])


def head(nights: Iterable[tuple[str, ...]]) -> str:
    """Name, label and time zone of a night; of several nights their dates."""
    of = list(dict.fromkeys(nights))
    if len(of) == 1:
        return " ".join(of[0])
    return ", ".join(sorted({date_of(label) for _, label, *_ in of}))


def date_of(label: str) -> str:
    """The date in a night's label."""
    return label.partition(" ")[0]


# --- the sentence


def first_sentence(head: str, facts: Sequence[SeriesFacts], rules: Sequence[Rule] = ()) -> str:
    """The sentence, without a full stop. `head`: the night's name and date; `rules`: whose failures are whose."""
    named = told_apart({each.series: each.place for each in facts})
    on = ", ".join(sorted(named.values()))
    parts = [_what(facts, named, rules)]
    if quieted := {change.op_id for each in facts for change in each.changes if change.alarms_later}:
        parts.append(f"{len(quieted)} acknowledged")
    for label, word in ((Label.FIXED, "fixed"), (Label.SLOWER, "slower")):
        ops = {change.op_id for each in facts for change in each.changes if change.change == label}
        parts += [f"{len(ops)} {word}"] if ops else []
    partial = sorted(named[each.series] for each in facts if each.partial)
    if partial:
        parts.append("partial" if len(facts) == 1 else f"partial: {', '.join(partial)}")
    return f"{head}{f', {on}' if on else ''}: {'; '.join(parts)}"


def _what(facts: Sequence[SeriesFacts], named: dict[str, str], rules: Sequence[Rule]) -> str:
    """What is new; or else what is right and what still fails."""
    if not any(each.attempted for each in facts):
        return "no data: no op was attempted"
    news = [(word, _labelled(facts, label)) for label, word in WORSE.items()]
    news = [(word, changes) for word, changes in news if changes]
    if news:
        (word, lead), *others = news
        causes = _causes(lead)
        sinces = {each.since for each in facts if each.news}
        since = f", {_since(sinces.pop())}" if len(sinces) == 1 and "" not in sinces else ""
        what = f"{_ops(word, lead)}, {_counted(causes)}{since}; first: {_first(causes[0], rules)}"
        return "; ".join([what, *(_ops(other, changes) for other, changes in others)])
    first_night = all(each.first for each in facts)
    counted = sorted((named[each.series], f"{each.right} of {each.attempted}") for each in facts if each.attempted)
    right = counted[0][1] if len(counted) == 1 else ", ".join(f"{name} {count}" for name, count in counted)
    failing = [change for each in facts for change in each.failing]
    known = {change.op_id for each in facts for change in each.changes if change.label in NOW_BAD and change.known}
    parts = [f"{'first night' if first_night else 'nothing new'}, {right} ops right"]
    if failing:
        causes = _causes(failing)
        parts.append(
            f"{len({change.op_id for change in failing})} {'' if first_night else 'still '}failing, {_counted(causes)}"
        )
    if known:
        parts.append(f"{len(known)} expected failure{'s' if len(known) > 1 else ''}")
    if not failing and not known:
        parts.append("nothing fails")
    first = f"; first: {_first(_causes(failing)[0], rules)}" if failing else ""
    return ", ".join(parts) + first


def _labelled(facts: Sequence[SeriesFacts], label: str) -> list[Change]:
    """What fails a gate with that label."""
    return [change for each in facts for change in each.news if change.label == label]


def _ops(word: str, changes: Iterable[Change]) -> str:
    """`27 new failures`: the ops, each counted once."""
    count = len({change.op_id for change in changes})
    return f"{count} {word}{'s' if word == WORSE[Label.NEW] and count > 1 else ''}"


def each_once(ops: Iterable[tuple[str, str]]) -> tuple[int, str]:
    """Of pairs of series and op: the ops, each counted once, and how many results of several series that are."""
    places = list(ops)
    count, series = len({op_id for _, op_id in places}), len({name for name, _ in places})
    return count, "" if len(places) == count else f"{len(places)} results in {series} series"


def _since(text: str) -> str:
    """The commits as a part of the sentence."""
    if text.startswith("the same"):
        return f"with {text}"
    return text if text.startswith(("up to ", "after ")) else f"since {text}"


def _causes(changes: Sequence[Change]) -> list[list[Change]]:
    """The changes by cause, in the order of `opscope unblock`: most models, then most uses."""
    groups: dict[str, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.cause or change.op_name, []).append(change)
    return [
        group
        for _, group in sorted(
            groups.items(),
            key=lambda item: (-len(_models(item[1])), -sum(change.uses for change in item[1]), item[0]),
        )
    ]


def _models(changes: Iterable[Change]) -> set[str]:
    return {model for change in changes for model in change.models}


def _counted(causes: Sequence[object]) -> str:
    return f"{len(causes)} cause{'s' if len(causes) > 1 else ''}"


def _first(cause: Sequence[Change], rules: Sequence[Rule]) -> str:
    """The ops of a cause, whose it is and how many models have it."""
    ops = {change.op_id: change.op_name for change in cause}
    full = [name for name, _ in sorted(Counter(ops.values()).items(), key=lambda item: (-item[1], item[0]))]
    names = [name.partition(".")[2] or name for name in full]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    models = sorted(_models(cause))
    heaviest = max(cause, key=lambda change: (change.uses, change.op_id))
    team = owner(rules, full, heaviest.stage, heaviest.cause, models)
    facts = [
        f"team {team}" if team else "",
        f"{len(models)} model{'' if len(models) == 1 else 's'}",
        f"cause {short(heaviest.cause)}" if heaviest.cause else "",
        cut(heaviest.remark, MOST_OF_NOTE),
    ]
    return f"{', '.join(names[:MOST_NAMES])}{more} ({', '.join(filter(None, facts))})"


def verdict(facts: Sequence[SeriesFacts]) -> str:
    """The sentence in a word: `worse`, `better`, `first night` or `as before`."""
    if any(each.news for each in facts):
        return "worse"
    if any(change.change == Label.FIXED for each in facts for change in each.changes):
        return "better"
    first = all(each.first for each in facts) and any(each.changes for each in facts)
    return "first night" if first else "as before"


def age(started: datetime, now: datetime | None = None) -> str:
    """How long ago a night began: `3 hours ago`, `7 days ago`."""
    hours = ((now or datetime.now(UTC)) - started).total_seconds() / 3600
    count, unit = (hours / 24, "day") if hours >= 48 else (hours, "hour")
    return f"{int(count)} {unit}{'' if int(count) == 1 else 's'} ago" if hours >= 1 else "less than an hour ago"
