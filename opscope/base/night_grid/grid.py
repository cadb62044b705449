"""The rows of night by cause, and the queries of the results database that they follow from.

`build` makes them of what the queries have, `read` asks these. A row is a cause, which has a stripe of cells for each
series and in it a cell for each date. Of several nights of a series on one date the last one has the cell; a cause of
an earlier one that it does not have is fixed by it. A partial night without a cause says nothing about it. Nights of
releases (`opscope history`) are shown by themselves: their columns are releases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS = 14
"""Dates that the rows have."""
MOST = 20
"""Rows; the other causes are counted."""
STRIPES = 4
"""Series that have a stripe each, of those in which a cause fails; of more only the worst is shown, and how many."""
LONGEST = 140
"""Characters of an error in a row: two lines of it. The note has all of it."""
OFTEN = 3
"""A cause that came so often in the dates of the rows comes and goes by itself."""
DIGITS = 8
"""Hex digits of a commit, and of the short id of a cause."""

RELEASE = "release"
"""The kind of a night of a release."""
NEW, FAILING, KNOWN, UNKNOWN = "new", "failing", "known", "unknown"
NO_NIGHT, RIGHT, EMPTY = "no-night", "right", "empty"
FAILS = (NEW, FAILING, KNOWN)
WORST = (NEW, FAILING, KNOWN, UNKNOWN, NO_NIGHT, RIGHT, EMPTY)
"""What a cell says, the worst first: it fails, some of it anew; it fails; it fails as limitations expect; a partial
night did not have it; the series had no night; it ran and was right; the series has not begun."""

Ask = Callable[[str, Mapping[str, Any]], Sequence[Sequence[Any]]]
"""Runs one query with its parameters, and returns its rows."""
PageOfRange = Callable[[str, str, str], str]
"""The page of the commits between two (commit_pages.py), given that of their repository."""

NIGHTS = """
SELECT s.night_id, s.series, s.backend, COALESCE(MIN(s.board) OVER of_series, MIN(s.arch) OVER of_series), s.started,
       s.status, s.revision, n.kind, n.label, n.zone, n.demo, n.release, s.due
FROM night_series s JOIN nights n ON n.night_id = s.night_id
WHERE n.kind <> 'selection' WINDOW of_series AS (PARTITION BY s.series) ORDER BY s.started, s.night_id"""
COUNTS = "SELECT night_id, series, cluster, ops, new_ops, expected_ops FROM night_grid WHERE night_id IN ({nights})"
DETAILS = """
SELECT cluster, failed_stage, error_message, op_names, models, uses, expected_ops, flaky_ops, ops, owner, repro, remark
FROM night_grid WHERE night_id = :night AND series = :series"""
LOGS = """
SELECT cluster, log FROM night_grid
WHERE night_id = :night AND series = :series AND cluster IN ({causes})"""
RUNS = "SELECT night_id, backend, options FROM runs WHERE night_id IN ({nights}) ORDER BY started"
OCCURS = "SELECT night_id, series, cluster FROM night_fixes WHERE cluster IN ({causes})"
ALONE = """
SELECT m.model, MIN(d.cluster) AS cluster
FROM night_models m
JOIN night_change_models u ON u.night_id = m.night_id AND u.series = m.series AND u.model = m.model
JOIN night_diff d ON d.night_id = u.night_id AND d.series = u.series AND d.op_id = u.op_id AND d.now_bad = 1
WHERE m.night_id = :night AND m.series = :series AND m.outcome = 'ran' AND m.attempted_ops = m.ops
GROUP BY m.model
HAVING COUNT(DISTINCT d.cluster) = 1 AND SUM(CASE WHEN d.expected LIKE 'never:%' THEN 1 ELSE 0 END) = 0
ORDER BY m.model"""
"""The models that one cause alone holds back; of one with ops that nobody attempted nobody knows, and one
with ops that fail for good is never whole."""
SENTENCE = "SELECT sentence, chips FROM dashboard_verdict WHERE one_series = 0"


@dataclass(frozen=True)
class Night:
    """One night of one series."""

    night_id: str
    series: str
    backend: str
    board: str
    """Empty for a backend that has none."""
    date: str
    """In the night's own zone. Of the night of a release, which may share a day with others, date and time."""
    started: datetime
    complete: bool = True
    revision: str = ""
    release: str = ""
    due: datetime | None = None
    """From when on it is late as the newest night of its series (due.py); None: at once."""

    @property
    def name(self) -> str:
        """Its date, or its release."""
        return self.release or self.date

    def stopped(self, newest: Night) -> bool:
        """Whether its series, of which it is the last night, has stopped when that of any series began: the rule of
        the headline (reports/database/views/night_dates.sql). A series that is late no more than this is awaited."""
        return not self.release and self.date < newest.date and (self.due or self.started) < newest.started


Range = tuple[Night, Night]
"""The last night of a series without a cause, and the first one with it after that."""


@dataclass(frozen=True)
class Count:
    """The ops that fail for one cause in one night of a series."""

    ops: int
    new_ops: int = 0
    expected_ops: int = 0
    """Those that limitations name."""


@dataclass(frozen=True)
class Detail:
    """What is said of a cause, from one night of a series in which it occurs."""

    message: str = ""
    stage: str = ""
    op_names: str = ""
    models: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    """Models that nothing else holds back."""
    uses: int = 0
    expected: bool = False
    """Whether a limitation names each of its failures."""
    flaky: bool = False
    """Whether repeated attempts of each of its ops disagreed."""
    owner: str = ""
    repro: str = ""
    log: str = ""
    """The run, and the path of a diagnostic in its folder."""
    remark: str = ""
    """The note of the cause: who, when, and what."""


@dataclass(frozen=True)
class Cell:
    """One series on one date."""

    state: str
    label: str
    """What it says, for whoever does not see it."""
    ops: int = 0
    partial: bool = False
    series: int = 1
    """In how many series it fails, where the cell is the worst of many."""

    @property
    def text(self) -> str:
        """A number of ops, or a sign, so that a cell is not known by its colour alone."""
        if self.state in FAILS:
            number = str(self.ops) if self.ops < 1000 else f"{self.ops / 1000:.0f}k"
            return f"({number})" if self.state == KNOWN else number
        return {RIGHT: "✓", UNKNOWN: "?"}.get(self.state, "")

    @property
    def times(self) -> str:
        """In how many series it fails, if the cell is the worst of several."""
        return f"×{self.series}" if self.series > 1 else ""


@dataclass(frozen=True)
class Stripe:
    """The cells of one series, or of the worst of many."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Since:
    """The start of the unbroken failure in one series."""

    series: str
    """Those that agree; empty if all in which it fails do."""
    text: str
    title: str
    last: str = ""
    """Date of the last night of a series that has stopped; one of releases never does."""
    url: str = ""
    """The page with the commits; empty where their repository is not known."""


@dataclass(frozen=True)
class Cause:
    """One row."""

    cluster: str
    detail: Detail
    stripes: tuple[Stripe, ...]
    """Of the series in which it fails on one of the dates."""
    without: tuple[str, ...] = ()
    """The other series."""
    alone_on: tuple[str, ...] = ()
    """The series in which nothing else holds back the models of `detail.alone`; empty if there is only one series."""
    since: tuple[Since, ...] = ()
    times: int = 1
    """How often it came, of the series in which it came most often: it was right in between."""
    fixed: str = ""
    """The date of the first night in which it was right again in all series; empty if it fails."""

    @property
    def short(self) -> str:
        """The short id."""
        return self.cluster[:DIGITS]

    @property
    def error(self) -> str:
        """The error, of two lines at most."""
        return cut(self.detail.message, LONGEST)

    @property
    def comes_and_goes(self) -> bool:
        """Whether it came so often that it is fixed no more than it is new when it is seen."""
        return self.times >= OFTEN

    @property
    def names(self) -> str:
        """Its ops, without the name of their dialect."""
        return self.detail.op_names.replace("stablehlo.", "")


@dataclass(frozen=True)
class Grid:
    """All rows, and what stands around them."""

    dates: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    more_failing: int = 0
    more_fixed: int = 0
    newest: Night | None = None
    label: str = ""
    """Date, time and zone of the newest night."""
    sentence: str = ""
    chips: str = ""
    """What else there is to say of the newest night."""
    demo: bool = False
    releases: Mapping[str, str] = field(default_factory=dict)
    """Date -> its release, if the columns are releases."""

    @property
    def merged(self) -> bool:
        """Whether a cell speaks for several series."""
        return any(cell.times for cause in self.causes for stripe in cause.stripes for cell in stripe.cells)

    @property
    def days(self) -> tuple[tuple[str, str], ...]:
        """The heads of columns: day of the week and of the month, or nothing and a release."""
        return tuple(
            ("", self.releases[each]) if each in self.releases else (f"{date.fromisoformat(each):%a}", each[8:])
            for each in self.dates
        )


def read(
    ask: Ask,
    now: datetime,
    page_of_range: PageOfRange,
    owner: str = "",
    until: datetime | None = None,
    kind: str = "night",
    most: int = MOST,
) -> Grid:
    """The grid of a results database. `owner`: the team whose causes are wanted; `until`: the start of a night
    after which none is looked at, whose date is then the last; `kind`: nights, single runs, or nights of releases."""
    rows = [_Named(*row) for row in ask(NIGHTS, {})]
    rows = [row for row in rows if until is None or row.night.started <= until]
    # Single runs, where there is nothing else.
    rows = [row for row in rows if row.kind == kind] or [row for row in rows if row.kind != RELEASE] or rows
    if not rows:
        return Grid()
    nights, last = [row.night for row in rows], max(rows, key=lambda row: (row.night.date, row.night.started))
    releases = {night.date: night.release for night in nights if night.release}
    today = _date(now, last.zone) if until is None else last.night.date
    dates = tuple(sorted(releases)[-DAYS:]) or dates_until(today, last.night.date)
    found = ask(*_of_nights(COUNTS, (night for night in nights if night.date in dates)))
    counts = {(night_id, series, cluster): Count(*map(int, numbers)) for night_id, series, cluster, *numbers in found}
    grid = build(nights, counts, _Details(ask, page_of_range), dates, owner, most)
    sentences = ask(SENTENCE, {}) if until is None and not owner and not releases else []
    sentence, chips = sentences[0] if sentences else ("", "")
    return replace(
        grid, label=f"{last.label} {last.zone}", sentence=sentence, chips=chips, demo=last.demo, releases=releases
    )


class _Named:
    """A row of NIGHTS."""

    def __init__(self, *row: Any) -> None:
        night_id, series, backend, board, started, status, revision, *named = row
        self.kind, self.label, self.zone, demo, release, due = named
        moment = _moment(started)
        day = moment.isoformat() if release else self.label[:10]
        complete = status == "complete"
        late = _moment(due) if due else None
        self.night = Night(night_id, series, backend, board, day, moment, complete, revision, release, late)
        self.demo = bool(demo)


def _moment(value: Any) -> datetime:
    """A time of the database, which SQLite has as a text, in UTC."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)  # noqa: UP017 - Superset's Python may be 3.10


class _Details:
    """Looks up what is said of causes, a night of a series at a time."""

    def __init__(self, ask: Ask, page_of_range: PageOfRange) -> None:
        self._ask, self._page_of_range = ask, page_of_range
        self._found: dict[tuple[str, str], dict[str, Detail]] = {}

    def of(self, night: Night, cluster: str) -> Detail:
        """What is said of a cause in a night, but for what is looked up for shown rows alone."""
        found = self._found.get((night.night_id, night.series))
        if found is None:
            found = self._found[night.night_id, night.series] = dict(self._of_night(night))
        return found.get(cluster, Detail())

    def _of_night(self, night: Night) -> Iterable[tuple[str, Detail]]:
        place = {"night": night.night_id, "series": night.series}
        alone: dict[str, list[str]] = {}
        for model, cluster in self._ask(ALONE, place):
            alone.setdefault(cluster, []).append(model)
        for row in self._ask(DETAILS, place):
            cluster, stage, message, op_names, models, uses, expected, flaky, ops, owner, repro, remark = row
            yield (
                cluster,
                Detail(
                    message=message,
                    stage=stage,
                    op_names=op_names,
                    models=tuple(filter(None, models.split(", "))),
                    alone=tuple(alone.get(cluster, ())),
                    uses=int(uses),
                    expected=int(expected) == int(ops),
                    flaky=int(flaky) == int(ops),
                    owner=owner,
                    repro=repro,
                    remark=remark,
                ),
            )

    def logs(self, night: Night, causes: Iterable[str]) -> dict[str, str]:
        """The logs of causes in a night, of those that are shown."""
        query, values = _of_causes(LOGS, causes)
        place = {"night": night.night_id, "series": night.series}
        return dict(map(tuple, self._ask(query, place | values)))

    def occurs(self, causes: Iterable[str]) -> set[tuple[str, str, str]]:
        """(night, series, cause): where each of these occurs, in all nights there are."""
        query, values = _of_causes(OCCURS, causes)
        return set(map(tuple, self._ask(query, values)))

    def pages(self, ranges: Iterable[Range]) -> dict[Range, str]:
        """The page of the commits between two nights, where these know one repository and one commit each."""
        ranges = list(ranges)
        repositories: dict[tuple[str, str], str] = {}
        for night_id, backends, options in self._ask(*_of_nights(RUNS, (each for both in ranges for each in both))):
            for backend in backends.split(","):
                if page := _repository(json.loads(options) if isinstance(options, str) else options, backend):
                    repositories[night_id, backend] = page
        pages = {}
        for before, first in ranges:
            both = {repositories.get((each.night_id, each.backend), "") for each in (before, first)} - {""}
            if len(both) == 1 and ", " not in before.revision + first.revision:
                pages[before, first] = self._page_of_range(both.pop(), before.revision, first.revision)
        return pages


def _repository(options: Any, backend: str) -> str:
    """The page of the repository of a run's commit: that of its compiler, if it has commits of its own."""
    source = options.get("source") if isinstance(options, dict) else None
    compilers = source.get("compilers") if isinstance(source, dict) else None
    own = compilers.get(backend) if isinstance(compilers, dict) else None
    of = own if isinstance(own, dict) and own.get("revision") else source
    return str(of.get("url") or "") if isinstance(of, dict) else ""


def _of_nights(query: str, nights: Iterable[Night]) -> tuple[str, dict[str, str]]:
    """A query about these nights, and its parameters."""
    values = {f"n{place}": each for place, each in enumerate(sorted({night.night_id for night in nights}))}
    return query.format(nights=", ".join(f":{name}" for name in values)), values


def _of_causes(query: str, causes: Iterable[str]) -> tuple[str, dict[str, str]]:
    """A query about these causes, and its parameters."""
    values = {f"c{place}": cluster for place, cluster in enumerate(sorted(set(causes)))}
    return query.format(causes=", ".join(f":{name}" for name in values)), values


class Known:
    """What is said of causes where it is known without a database."""

    def __init__(
        self,
        details: Mapping[tuple[str, str], Detail],
        occurs: Iterable[tuple[str, str, str]] = frozenset(),
    ) -> None:
        self._details, self._occurs = details, set(occurs)

    def of(self, night: Night, cluster: str) -> Detail:
        """What is said of a cause in a night."""
        return self._details.get((night.series, cluster), Detail())

    def logs(self, night: Night, causes: Iterable[str]) -> dict[str, str]:
        """The logs of causes in a night."""
        return {cluster: self.of(night, cluster).log for cluster in causes}

    def occurs(self, causes: Iterable[str]) -> set[tuple[str, str, str]]:
        """(night, series, cause): where each of these occurs, in all nights there are."""
        return {place for place in self._occurs if place[2] in set(causes)}

    def pages(self, ranges: Iterable[Range]) -> dict[Range, str]:
        """No page: a run's own comparison knows its commits."""
        return {}


def dates_until(today: str, newest: str) -> tuple[str, ...]:
    """The last dates up to today; up to the newest night's where that would show none of its nights."""
    last = date.fromisoformat(max(today, newest))
    if (last - date.fromisoformat(newest)).days >= DAYS:
        last = date.fromisoformat(newest)
    return tuple((last - timedelta(days=ago)).isoformat() for ago in reversed(range(DAYS)))


def picked(nights: Iterable[Night], dates: Sequence[str]) -> list[Night]:
    """The nights that count for the dates: of each series the last one on a date."""
    return list({(night.series, night.date): night for night in nights if night.date in dates}.values())


def _by_series(nights: Iterable[Night]) -> dict[str, list[Night]]:
    by_series: dict[str, list[Night]] = {}
    for night in nights:
        by_series.setdefault(night.series, []).append(night)
    return by_series


def build(
    nights: Sequence[Night],
    counts: Mapping[tuple[str, str, str], Count],
    details: _Details | Known,
    dates: Sequence[str],
    owner: str = "",
    most: int = MOST,
) -> Grid:
    """The grid. `nights`: all there are, the oldest first; `counts`: by night, series and cause."""
    by_series = _by_series(picked(nights, dates))
    names = short_names([by_series[series][0] for series in sorted(by_series)])
    begun: dict[str, str] = {}
    for night in nights:
        begun.setdefault(night.series, night.date)
    there = [night for of in by_series.values() for night in of]
    if not there:
        return Grid(tuple(dates))
    last = max(there, key=lambda night: (night.date, night.started))
    newest = replace(last, started=max(night.started for night in there))
    tried = _by_series(night for night in nights if night.date in dates)
    every = [_Row(cluster, tried, counts, newest) for cluster in sorted({cluster for _, _, cluster in counts})]
    rows = [row for row in every if row.nights]
    failing = [row.looked_up(details) for row in rows if row.failing]
    fixed = sorted((row for row in rows if not row.failing), key=lambda row: (row.fixed, row.cluster), reverse=True)
    if owner:
        failing = [row for row in failing if row.detail.owner == owner]
        fixed = [row for row in fixed if row.looked_up(details).detail.owner == owner]
    failing.sort(key=lambda row: row.rank)
    shown = (failing + fixed)[:most]
    _complete(shown, nights, details)
    began = {(before, first) for row in shown for before, first in row.began.values() if before is not None}
    shown_as = {night.date: night.name for night in nights}
    pages = details.pages(both for both in began if _commits(*both)) if began else {}
    causes = []
    for row in shown:
        every = [
            Stripe(name, tuple(_cells(name, by_series[series], counts, row.cluster, dates, begun[series])))
            for series, name in names.items()
        ]
        stripes = [stripe for stripe in every if any(cell.state in FAILS for cell in stripe.cells)] or every
        causes.append(
            Cause(
                row.cluster,
                row.detail,
                tuple(stripes) if len(stripes) <= STRIPES else (_worst(stripes),),
                tuple(stripe.name for stripe in every if stripe not in stripes),
                tuple(names[series] for series in row.alone_in) if len(names) > 1 else (),
                tuple(_since(row, nights, names, newest, pages)),
                row.times,
                shown_as.get(row.fixed, row.fixed),
            )
        )
    return Grid(
        tuple(dates),
        tuple(names.values()),
        tuple(causes),
        max(0, len(failing) - most),
        len(fixed) - max(0, len(shown) - len(failing)),
        newest,
    )


class _Row:
    """A cause on its way to a row."""

    def __init__(
        self,
        cluster: str,
        by_series: Mapping[str, Sequence[Night]],
        counts: Mapping[tuple[str, str, str], Count],
        newest: Night,
    ) -> None:
        self.cluster, self.detail = cluster, Detail()
        self.alone_in: list[str] = []
        """The series in which it alone holds back a model."""
        self.failing: dict[str, Night] = {}
        """Series -> its last night with the cause, if no complete night without it came later."""
        self.began: dict[str, tuple[Night | None, Night]] = {}
        """Series -> the last complete night without the cause, and the first one with it after that."""
        self.times = 1
        ended: list[str] = []
        lasts: list[tuple[Night, Count]] = []
        for series, nights in by_series.items():
            occurs = [night for night in nights if (night.night_id, series, cluster) in counts]
            if not occurs:
                continue
            seen = [night in occurs for night in nights if night.complete or night in occurs]
            came = sum(fails and not before for before, fails in zip([False, *seen], seen, strict=False))
            self.times = max(self.times, came)
            last = occurs[-1]
            lasts.append((last, counts[last.night_id, series, cluster]))
            later = [night for night in nights if night.started > last.started and night.complete]
            if later:
                ended.append(later[0].date)
                continue
            self.failing[series] = last
            rights = [night for night in nights if night.complete and night not in occurs]
            before = rights[-1] if rights else None
            self.began[series] = before, next(n for n in occurs if before is None or n.started > before.started)
        self.fixed = "" if self.failing else max(ended, default="")
        speaking = [place for place in lasts if not self.failing or place[0].series in self.failing]
        speaking.sort(key=lambda place: (place[0].date, place[1].ops, place[0].series), reverse=True)
        self.nights = [night for night, _ in speaking]
        """The nights that say what is said of the cause, the first of them what has one value."""
        tonight = [count.new_ops for night, count in speaking if night.date == newest.date]
        self.new_ops = max(tonight, default=0)
        self.stopped = all(by_series[series][-1].stopped(newest) for series in self.failing)
        """Whether every series in which it fails has."""

    def looked_up(self, details: _Details | Known) -> _Row:
        """The row itself, once it is known what is said of the cause."""
        each = [details.of(night, self.cluster) for night in self.nights]
        self.alone_in = [night.series for night, detail in zip(self.nights, each, strict=True) if detail.alone]
        self.detail = replace(
            each[0],
            models=_union(detail.models for detail in each),
            alone=_union(detail.alone for detail in each),
            uses=sum(detail.uses for detail in each),
            expected=all(detail.expected for detail in each),
            flaky=all(detail.flaky for detail in each),
        )
        return self

    @property
    def rank(self) -> tuple[Any, ...]:
        """What to do first: what fails in a series that has not stopped, neither named by a limitation nor coming and
        going; what is new; what makes most models whole."""
        detail = self.detail
        last = (-len(detail.alone), -len(detail.models), -detail.uses, self.cluster)
        return detail.expected, detail.flaky, self.stopped, not self.new_ops, *last


def _union(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted({each for one in lists for each in one}))


def _complete(rows: Sequence[_Row], nights: Sequence[Night], details: _Details | Known) -> None:
    """Adds what is looked up for shown rows alone: their logs, and since when what is never right there fails."""
    logs: dict[Night, list[_Row]] = {}
    for row in rows:
        if not row.failing:
            row.looked_up(details)
        logs.setdefault(row.nights[0], []).append(row)
    for night, of in logs.items():
        found = details.logs(night, [row.cluster for row in of])
        for row in of:
            row.detail = replace(row.detail, log=found.get(row.cluster, ""))
    older = [row for row in rows if any(before is None for before, _ in row.began.values())]
    occurs = details.occurs([row.cluster for row in older]) if older else set()
    for row in older:
        for series, (before, first) in row.began.items():
            if before is not None:
                continue
            for night in reversed([n for n in nights if n.series == series and n.started < first.started]):
                if (night.night_id, series, row.cluster) in occurs:
                    first = night
                elif night.complete:
                    before = night
                    break
            row.began[series] = before, first


def _since(
    row: _Row, nights: Sequence[Night], names: Mapping[str, str], newest: Night, pages: Mapping[Range, str]
) -> Iterable[Since]:
    """The start of the failure in each series in which the cause occurs; one of all those that say the same."""
    all_since = []
    for series in (series for series in names if series in row.failing):
        before, first = row.began[series]
        own = [night for night in nights if night.series == series]
        stopped = row.failing[series].date if own[-1].stopped(newest) else ""
        if before is None:
            text, title = f"before {own[0].name}", f"{names[series]}: in every complete night since the first"
            all_since.append(Since(names[series], text, title, stopped))
            continue
        commits = _commits(before, first)
        text = first.name
        if commits:
            text = commits if first.release else f"{first.date[5:]}, {commits}"
        title = f"{names[series]}: right on {before.name}, failing since {first.name}"
        all_since.append(Since(names[series], text, title, stopped, pages.get((before, first), "")))
    agreeing: dict[tuple[str, str], list[Since]] = {}
    for since in all_since:
        agreeing.setdefault((since.text, since.last), []).append(since)
    for of in agreeing.values():
        yield replace(
            of[0],
            series=", ".join(since.series for since in of) if len(agreeing) > 1 else "",
            title="; ".join(since.title for since in of),
            url=next((since.url for since in of if since.url), ""),
        )


def _cells(
    name: str,
    nights: Sequence[Night],
    counts: Mapping[tuple[str, str, str], Count],
    cluster: str,
    dates: Sequence[str],
    begun: str,
) -> Iterable[Cell]:
    by_date = {night.date: night for night in nights}
    for day in dates:
        night = by_date.get(day)
        place = f"{name}, {day if night is None else night.name}"
        if night is None:
            if day < begun:
                yield Cell(EMPTY, f"{place}: the series had not begun")
            else:
                yield Cell(NO_NIGHT, f"{place}: no night")
            continue
        partial = "" if night.complete else " in a partial night"
        count = counts.get((night.night_id, night.series, cluster))
        if count is None:
            state, words = (UNKNOWN, "not seen") if partial else (RIGHT, "right")
            yield Cell(state, f"{place}: {words}{partial}", partial=bool(partial))
            continue
        ops = "1 op fails" if count.ops == 1 else f"{count.ops} ops fail"
        anew = f", {count.new_ops} anew" if count.new_ops else ""
        known = count.ops == count.expected_ops
        state = NEW if count.new_ops else KNOWN if known else FAILING
        words = f"{ops}{anew}{', known' if known else ''}{partial}"
        yield Cell(state, f"{place}: {words}", count.ops, bool(partial))


def _worst(stripes: Sequence[Stripe]) -> Stripe:
    """The worst cell of each date, and in how many series the cause fails."""
    cells = []
    for column in zip(*(stripe.cells for stripe in stripes), strict=True):
        worst = min(column, key=lambda cell: (WORST.index(cell.state), -cell.ops))
        failing = sum(cell.state in FAILS for cell in column)
        label = f"{worst.label}; it fails in {failing} of {len(stripes)} series" if failing else worst.label
        cells.append(replace(worst, label=label, series=max(1, failing)))
    return Stripe(f"{len(stripes)} series", tuple(cells))


def short_names(nights: Iterable[Night]) -> dict[str, str]:
    """Series -> what sets it apart: its backend, or its board where that backend has several; else both, and more."""
    nights = list(nights)
    backends = [night.backend for night in nights]
    names = {}
    for night in nights:
        alone = backends.count(night.backend) == 1 and len(nights) > 1
        names[night.series] = night.backend if alone or not night.board else night.board
    taken = list(names.values())
    for night in nights:
        if taken.count(names[night.series]) > 1:
            names[night.series] = f"{night.backend} {night.board}".strip()
    return told_apart(names)


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Series -> its name, and of those with one name also the words of their keys that set them apart."""
    apart = dict(names)
    for name in set(names.values()):
        keys = {series: series.split() for series in names if names[series] == name}
        if len(keys) == 1:
            continue
        common = set.intersection(*map(set, keys.values()))
        for series, words in keys.items():
            kept = [word for word in words if word in name.split() or word not in common]
            apart[series] = " ".join([*(word for word in name.split() if word not in kept), *map(word_of_name, kept)])
    return apart


def word_of_name(word: str) -> str:
    """A word of a series' key as its name has it: what begins with a digit is the seed, which a key does not name."""
    return f"seed={word}" if word[:1].isdigit() else word


def cut(text: str, longest: int) -> str:
    """The text on one line; one that is too long ends at a word, with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    whole_words = line[:longest].rpartition(" ")[0]
    return f"{(whole_words if len(whole_words) > longest // 2 else line[: longest - 1]).rstrip(' ,;:')}…"


def age(then: datetime, now: datetime) -> str:
    """How long ago it was, in one unit."""
    hours = (now - then).total_seconds() / 3600
    if hours < 1:
        return "less than an hour ago"
    count, unit = (int(hours), "hour") if hours < 48 else (int(hours / 24), "day")
    return f"{count} {unit}{'' if count == 1 else 's'} ago"


def _commits(before: Night, first: Night) -> str:
    """The revisions of two nights, each as its first digits; empty where they are the same, or one is not known."""
    old, new = (", ".join(each[:DIGITS] for each in night.revision.split(", ") if each) for night in (before, first))
    return f"{old}..{new}" if old and new and old != new else ""


def _date(now: datetime, zone: str) -> str:
    try:
        return now.astimezone(ZoneInfo(zone)).date().isoformat()
    except (ZoneInfoNotFoundError, ValueError):
        return now.astimezone(timezone.utc).date().isoformat()  # noqa: UP017 - Superset's Python may be 3.10
