"""What a night or a run comes to, in at most 90 characters: what broke and what to do first. Below it, once each, what
else is worth knowing of it.

    27 new failures, 3 causes: start with broadcast_in_dim (lowering, 8 models)
    nightly 2026-11-20 02:00 UTC, reference n150, since a1b2c3d4..d4e5f6a7
    1 less exact, 2 fixed, 1 acknowledged: exp

`opscope diff`, the message and the summary of a night, report.html, the dashboards and assistants begin with it. It
speaks for all series that it names: an op that is worse in two of them counts once, and so does a cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import NamedTuple

import sqlalchemy as sa

from opscope.base.labels import BROKEN, NEWS, NOW_BAD, QUIET, Label, change_of
from opscope.base.night_grid.grid import told_apart
from opscope.base.statuses import NOT_ATTEMPTED, RIGHT
from opscope.reports.compare.commit_range import CommitRange, range_of
from opscope.reports.compare.diff import Diff, Row, conditions_changed, first_rows
from opscope.reports.compare.night_views import last_complete, newest_run
from opscope.reports.compare.outcomes import RunView
from opscope.reports.database.notes import read_notes
from opscope.reports.database.owners import Rule, owner
from opscope.reports.database.rows import RELEASE
from opscope.reports.database.schema import NIGHTS, OPS
from opscope.reports.database.schema_nights import NIGHT_CHANGES, NIGHT_COUNTS, NIGHT_SERIES, in_series, of_series
from opscope.reports.database.series_names import board_in, series_name

WORSE = {
    Label.NEW: "new failure",
    Label.REASON_CHANGED: "failing for another reason",
    Label.PCC_DROP: "less exact",
}
"""Label that fails a gate -> how its ops are called."""
LONGEST = 90
"""Characters of the headline."""
MOST_NAMES = 2
"""So many names of ops, models or series are named; the others are counted."""


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


@dataclass(frozen=True)
class SeriesFacts:
    """What the sentence needs of one series."""

    series: str
    place: str
    """Its name (database/series_names.py)."""
    right: int
    attempted: int
    changes: tuple[Change, ...]
    first: bool
    """Whether there is nothing before it."""
    since: str
    """The commits since what it is compared with; empty if unknown."""
    conditions: tuple[str, ...] = ()
    """The conditions that changed since then."""
    missing: str = ""
    """What did not arrive of it; empty if it is complete."""
    broken: str = ""
    """The text with which every op fails; empty where the backend works."""
    stopped: str = ""
    """The date of its last night, if the series has stopped."""
    awaited: str = ""
    """The date of its last night, if the series has none of the newest date yet."""

    @property
    def news(self) -> list[Change]:
        """What fails a gate."""
        return [change for change in self.changes if change.change in NEWS]

    @property
    def failing(self) -> list[Change]:
        """What goes wrong, neither expected nor flaky."""
        bad = [change for change in self.changes if change.label in NOW_BAD]
        return [change for change in bad if not (change.known or change.flaky or change.acknowledged)]

    @property
    def quiet(self) -> set[str]:
        """Ids of the ops that go wrong and are flaky or acknowledged."""
        bad = (change for change in self.changes if change.label in NOW_BAD and not change.known)
        return {change.op_id for change in bad if change.flaky or change.acknowledged}


# --- from a comparison, and from the database


def of_view(view: RunView, diff: Diff | None, missing: str = "") -> SeriesFacts:
    """A run, or a night in one series, compared with what came before it, if anything did."""
    rows = first_rows(view) if diff is None else [row for row in diff.rows if row.label not in QUIET]
    used = [op for op in view.ops.values() if op.uses_of]
    return SeriesFacts(
        view.series,
        view.name,
        sum(op.right for op in used),
        sum(op.attempted for op in used),
        tuple(map(_change, rows)),
        diff is None,
        _text(None if diff is None else diff.since),
        () if diff is None else diff.conditions,
        missing or ", ".join(view.missing),
        view.broken,
    )


def _change(row: Row) -> Change:
    what = row.label, row.op_id, row.op_name, row.cluster, row.failed_stage
    return Change(*what, row.models, row.uses, bool(row.known), row.flaky, row.remark, row.acknowledged)


def of_missing(series: str, place: str, previous: str) -> SeriesFacts:
    """A series of a night that has no run; `previous` is the night before it, if there is one."""
    return SeriesFacts(series, place, 0, 0, (), not previous, "", missing="its run")


_NOT_TONIGHT = sa.text(
    "SELECT d.series, d.night_id, d.platform, d.day, d.stopped FROM night_dates d "
    "JOIN nights n ON n.night_id = d.night_id "
    "WHERE d.newest = 1 AND d.tonight = 0 AND n.kind = 'night' ORDER BY d.series"
)


def not_tonight(connection: sa.Connection, there: Iterable[SeriesFacts]) -> list[SeriesFacts]:
    """The series that have no night of the newest date (views/night_dates.sql): those that have stopped, and those that
    are awaited, in which what failed in their last night fails still. One that is missing from a night is `there`, by
    the beginning of its name: nobody knows with which options its run would have been."""
    there = list(there)
    named = {each.series for each in there}
    lacking = tuple(f"{each.place} " for each in there if not each.attempted and each.missing)
    facts = []
    for row in connection.execute(_NOT_TONIGHT).all():
        if row.series in named or f"{row.platform} ".startswith(lacking):
            continue
        if row.stopped:
            facts.append(SeriesFacts(row.series, row.platform, 0, 0, (), False, "", stopped=row.day))
            continue
        last = of_night(connection, row.night_id, row.series)
        bad = (change._replace(label=Label.PERSISTING) for change in last.changes if change.label in NOW_BAD)
        facts.append(replace(last, changes=tuple(bad), first=False, since="", missing="", awaited=row.day))
    return facts


def place_asked_for(connection: sa.Connection, backend: str, arch: str, series: str) -> str:
    """The place of a series without a run: with the board that the backend last had, else with the one asked for."""
    had = sa.select(NIGHT_SERIES.c.board).where(NIGHT_SERIES.c.board.is_not(None))
    had = had.where(NIGHT_SERIES.c.backend == backend, NIGHT_SERIES.c.arch == arch)
    board = connection.scalar(had.order_by(NIGHT_SERIES.c.started.desc()).limit(1))
    return series_name(backend, arch if board is None else board, series)


SERIES = sa.select(NIGHT_SERIES).where(in_series(NIGHT_SERIES))
_LABEL = sa.select(NIGHTS.c.label).where(NIGHTS.c.night_id == sa.bindparam("night"))
_CHANGED = (
    sa.select(NIGHT_CHANGES, OPS.c.op_name)
    .join(OPS, OPS.c.op_id == NIGHT_CHANGES.c.op_id)
    .where(in_series(NIGHT_CHANGES))
)
_MESSAGE = sa.select(NIGHT_CHANGES.c.message).where(in_series(NIGHT_CHANGES))
_COUNTED = (
    sa.select(NIGHT_COUNTS.c.status, sa.func.sum(NIGHT_COUNTS.c.ops))
    .where(in_series(NIGHT_COUNTS), NIGHT_COUNTS.c.model == "")
    .group_by(NIGHT_COUNTS.c.status)
)


def of_night(connection: sa.Connection, night_id: str, series: str) -> SeriesFacts:
    """A night in one series, from what publishing counted of it."""
    here = of_series(night_id, series)
    row = connection.execute(SERIES, here).mappings().one()
    label = connection.scalar(_LABEL, {"night": night_id})
    notes, day = read_notes(connection), date_of(str(label))
    changes = []
    for each in connection.execute(_CHANGED, here).mappings():
        what = (each[name] for name in ("label", "op_id", "op_name", "cluster", "stage"))
        models, note = tuple(filter(None, each["models"].split(", "))), notes.get(each["cluster"])
        said = ("", False) if note is None else (note.line(day), note.quiets(day))
        changes.append(Change._make((*what, models, each["uses"], bool(each["known"]), each["flaky"], *said)))
    message = connection.scalar(_MESSAGE, here)
    ops = {status: int(count) for status, count in connection.execute(_COUNTED, here)}
    previous, since, conditions = row["previous_night"], None, tuple[str, ...]()
    if previous:
        known_good = last_complete(connection, previous, series) or previous
        old, new = newest_run(connection, known_good, series), newest_run(connection, night_id, series)
        if old is not None and new is not None:
            since = range_of(old, row["backend"], new, row["backend"])
            conditions = tuple(conditions_changed(old, new))
    return SeriesFacts(
        series,
        series_name(row["backend"], board_in(connection, night_id, series, row["arch"]), series),
        sum(count for status, count in ops.items() if status in RIGHT),
        sum(count for status, count in ops.items() if status not in NOT_ATTEMPTED),
        tuple(changes),
        not previous,
        _text(since),
        conditions,
        row["missing"],
        str(message) if row["status"] == BROKEN else "",
    )


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


# --- what it comes to


class Said(NamedTuple):
    """What stands first about a night or a run."""

    headline: str
    """What broke and what to do, in at most 90 characters."""
    about: str
    """Name, date and zone, series, and commits."""
    chips: tuple[str, ...]
    """The rest, a few words each."""

    def __str__(self) -> str:
        """The three as lines."""
        return "\n".join(filter(None, (self.headline, self.about, ", ".join(self.chips))))


def first_sentence(
    head: str, facts: Sequence[SeriesFacts], rules: Sequence[Rule] = (), team: str | None = None
) -> Said:
    """What some series come to. `head`: the night's name and date; `rules`: whose failures are whose; with `team`, of
    what changed only its own."""
    if team is not None:
        facts = [replace(each, changes=tuple(_of_team(each.changes, rules, team))) for each in facts]
        head = f"{head}, failures of {team}"
    named = told_apart({each.series: each.place for each in facts})
    lead, headline = _headline(facts, named, rules)
    if team is not None and lead == "nothing":
        headline = _within("no failure of {}", team)
    sinces = list(dict.fromkeys(each.since for each in facts if each.since))
    about = [head, *sorted(named[each.series] for each in facts if not each.stopped), *map(_since, sinces[:MOST_NAMES])]
    if conditions := list(dict.fromkeys(name for each in facts for name in each.conditions)):
        about.append(f"under other conditions: {_names(conditions)}")
    chips = tuple(chip for kind, chip in _chips(facts, named) if kind != lead)
    return Said(headline, ", ".join(filter(None, about)), chips)


def _of_team(changes: Iterable[Change], rules: Sequence[Rule], team: str) -> Iterator[Change]:
    for change in changes:
        if owner(rules, [change.op_name], change.stage, change.cause, change.models) == team:
            yield change


def _headline(facts: Sequence[SeriesFacts], named: Mapping[str, str], rules: Sequence[Rule]) -> tuple[str, str]:
    """What is said first, and its kind: the first of these that there is."""
    right, attempted = sum(each.right for each in facts), sum(each.attempted for each in facts)
    if not attempted:
        return "no data", "no data: no op was attempted"
    if broken := [each for each in facts if each.broken]:
        ops, first = broken[0].attempted, named[broken[0].series]
        return "broken", _within(f"backend may not work: all {ops} ops fail on {{}} with one text", first)
    chips = dict(_chips(facts, named))
    for label, word in WORSE.items():
        if label == Label.REASON_CHANGED:  # what has no verdict of tonight comes before what was known to fail
            for kind in ("stopped", "missing"):
                if kind in chips:
                    return kind, _within("{}", chips[kind])
        if changes := [change for each in facts for change in each.news if change.label == label]:
            return label, _with_first(_ops(word, changes), changes, rules)
    for kind, word, of in _failing(facts):
        if of:
            return kind, _with_first(_ops(word, of), of, rules)
    if "acknowledged" in chips:
        return "acknowledged", _within("{}", chips["acknowledged"])
    known = any(change.label in NOW_BAD for each in facts for change in each.changes)
    of = "ops" if sum(bool(each.attempted) for each in facts) == 1 else "results"
    return "nothing", f"nothing {'new ' if known else ''}fails: {right} of {attempted} {of} right"


def _chips(facts: Sequence[SeriesFacts], named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each kind of thing that there is to say of some series, and how."""
    changes = [change for each in facts for change in each.changes]
    bad = [change for change in changes if change.label in NOW_BAD]
    for kind, word in (("stopped", "stopped"), ("missing", "partial"), ("awaited", "awaited")):
        if of := sorted(named[each.series] for each in facts if getattr(each, kind)):
            what = facts[0].missing if kind == "missing" and len(facts) == 1 else _names(of)
            several = f"{len(of)} of {len(facts)} series {word}: {what}"
            yield kind, several if len(facts) > 1 else f"{word}: {what} missing"
    for label, word in WORSE.items():
        if news := [change for change in changes if change.change == label]:
            yield label, _ops(word, news)
    (_, _, failing), (_, _, at_first), (_, _, added) = _failing(facts)
    noted = [change for change in bad if change.acknowledged and not change.known]
    models = _names(sorted(_models(added)))
    for kind, word, of in (
        ("failing", "still failing", failing),
        ("acknowledged", f"acknowledged: {_names(_op_names(noted))}", noted),
        ("known", "failing as expected", [change for change in bad if change.known]),
        ("flaky", "flaky", [change for change in bad if change.flaky and not change.known]),
        ("new model", f"failing in a new model: {models}", added),
        (Label.FIXED, "fixed", [change for change in changes if change.change == Label.FIXED]),
        *(
            (label, word, [change for change in changes if change.label == label])
            for label, word in ((Label.VARYING, "not repeating"), (Label.BATCH_DEPENDENT, "depending on the batch"))
        ),
        (Label.SLOWER, "slower", [change for change in changes if change.label == Label.SLOWER]),
    ):
        if of:
            yield kind, f"{_count(of)} {word}"
    if first := sorted(named[each.series] for each in facts if each.first and each.attempted):
        count = "" if len(first) == len(facts) or not at_first else f": {_count(at_first)} failing"
        yield "first", "first night" + ("" if len(first) == len(facts) else f" of {_names(first)}{count}")


def _failing(facts: Sequence[SeriesFacts]) -> tuple[tuple[str, str, list[Change]], ...]:
    """The kinds of failures that fail no gate, each with its name in a sentence, and they: those of before, those of a
    series that nothing is before, and those that only a new model has."""
    of_first = [change for each in facts if each.first for change in each.failing]
    others = [change for each in facts if not each.first for change in each.failing]
    return (
        ("failing", "still failing", [change for change in others if change.label == Label.PERSISTING]),
        ("failing at first", "failing", of_first),
        ("new model", "failing in a new model", [change for change in others if change.label == Label.FIRST]),
    )


def _with_first(what: str, changes: Sequence[Change], rules: Sequence[Rule]) -> str:
    """What there is of some changes, and the cause to begin with: its ops, whose it is and how many models have it."""
    causes = _causes(changes)
    full, models = _full_names(causes[0]), sorted(_models(causes[0]))
    heaviest = max(causes[0], key=lambda change: (change.uses, change.op_id))
    team = owner(rules, full, heaviest.stage, heaviest.cause, models)
    head = f"{what}, {len(causes)} cause{'s' if len(causes) > 1 else ''}: start with"
    count = f"{len(models)} model{'' if len(models) == 1 else 's'}"
    names = _op_names(causes[0])
    for most, who in ((MOST_NAMES, team), (1, team), (1, "")):
        text = f"{head} {_names(names, most)} ({', '.join(filter(None, (who, count)))})"
        if len(text) <= LONGEST:
            return text
    return _within(f"{head} {{}} ({count})", names[0])


def _within(text: str, name: str) -> str:
    """The text with a name that is cut in the middle if the whole would be too long."""
    room = max(LONGEST - len(text.format("")), 9)
    if len(name) > room:
        name = f"{name[: (room - 1) // 2]}…{name[len(name) - (room - 1 - (room - 1) // 2) :]}"
    return text.format(name)


def _names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """`add, exp and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def _full_names(changes: Iterable[Change]) -> list[str]:
    """The names of ops, that of most ops first."""
    ops = {change.op_id: change.op_name for change in changes}
    return [name for name, _ in sorted(Counter(ops.values()).items(), key=lambda item: (-item[1], item[0]))]


def _op_names(changes: Iterable[Change]) -> list[str]:
    """The same without their dialect."""
    return [name.partition(".")[2] or name for name in _full_names(changes)]


def _count(changes: Iterable[Change]) -> int:
    """The ops, each counted once."""
    return len({change.op_id for change in changes})


def _ops(word: str, changes: Sequence[Change]) -> str:
    """`27 new failures`."""
    return f"{_count(changes)} {word}{'s' if word == WORSE[Label.NEW] and _count(changes) > 1 else ''}"


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


def verdict(facts: Sequence[SeriesFacts]) -> str:
    """The sentence in a word: `worse`, `better`, `first night` or `as before`."""
    if any(each.news or each.broken for each in facts):
        return "worse"
    if any(change.change == Label.FIXED for each in facts for change in each.changes):
        return "better"
    first = all(each.first for each in facts) and any(each.changes for each in facts)
    return "first night" if first else "as before"
