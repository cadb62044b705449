"""Compares two nights series by series, and finds the newest night."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from opscope.base import gc_pause
from opscope.harness.record.errors import InputError
from opscope.harness.record.optest import release_in
from opscope.reports.compare.diff import Diff, compare
from opscope.reports.compare.first_sentence import SeriesFacts, of_missing, place_asked_for
from opscope.reports.compare.history import between_backends, compared, slower_between_nights
from opscope.reports.compare.night_views import (
    is_night,
    newest_by_series,
    night_before,
    night_view,
    nights_by_series,
    nights_named,
    series_of,
)
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.run_selection import Runs
from opscope.reports.database.newest import begun, newest_day
from opscope.reports.database.rows import RELEASE, SELECTION
from opscope.reports.database.schema import NIGHTS
from opscope.reports.database.schema_nights import NIGHT_SERIES


def newest_night(connection: sa.Connection) -> str | None:
    """The newest night, or None if a single run is newer; runs of selected ops and of releases do not count.

    Of nights that started together, the one with most models.
    """
    dated = NIGHTS.c.kind.not_in((SELECTION, RELEASE)) & begun(NIGHTS.c.night_id)
    newest = sa.select(sa.func.max(NIGHTS.c.started)).where(dated).scalar_subquery()
    query = sa.select(NIGHTS.c.night_id, NIGHTS.c.kind, NIGHTS.c.models).where(dated, NIGHTS.c.started == newest)
    night = max(connection.execute(query), key=lambda row: (len(row.models), row.night_id), default=None)
    return night.night_id if night is not None and night.kind == "night" else None


def names_night(connection: sa.Connection | None, name: str) -> bool:
    """Whether `name` is the id or the label of a night."""
    if connection is None:
        return False
    if is_night(connection, name):
        return True
    try:
        return bool(nights_named(connection, name))
    except InputError:
        return False


def diffs(runs: Runs, a: str | None, b: str | None) -> tuple[list[Diff], bool]:
    """Compares what `a` and `b` name, and whether these are nights: one Diff per series of nights, one of two runs.

    Two names of backends that runs have (`tt@0.1.2`, `tt@0.1.3`) stand for what the newest run says of them. Without
    either the newest night with the one before it, or the two newest comparable runs. Raises InputError as
    `compared_nights` and `history.compared`.
    """
    named = [name for name in (a, b) if name is not None]
    connection = runs.connection
    two_nights = all(names_night(connection, name) for name in named)
    if a is not None and b is not None and not two_nights and runs.folder(a) is None and runs.folder(b) is None:
        between = between_backends(runs, a, b)
        if between is not None:
            return [between], False
    if connection is not None and _are_nights(runs, connection, named):
        return compared_nights(connection, a, b), True
    return compared(runs, a, b), False


def _are_nights(runs: Runs, connection: sa.Connection, named: Sequence[str]) -> bool:
    """Whether all names are of nights, or one is a date, which no run has as its name; of none: if one is there."""
    nights = [name for name in named if runs.folder(name) is None and names_night(connection, name)]
    if not named:
        return newest_night(connection) is not None
    return len(nights) == len(named) or not all(is_night(connection, name) for name in nights)


def compared_nights(connection: sa.Connection, a: str | None, b: str | None) -> list[Diff]:
    """Night `a` with night `b`; `a` with the one before it; or the newest with the one before it: one Diff per series.

    A date stands for all nights of that day. A series whose first night this is has no Diff (`series_alone`). Raises
    InputError where there is no night.
    """
    if a is not None and b is not None:
        earlier, late = _of_one_history(connection, a, b) or (
            nights_by_series(connection, name, where) for name, where in ((a, "RUN_A"), (b, "RUN_B"))
        )
        common = sorted(set(earlier) & set(late))
        if not common:
            got = f"{', '.join(sorted(earlier))} and {', '.join(sorted(late))}"
            raise InputError(
                "opscope diff", "nights with a series in common", got, "two nights with the same configuration"
            )
        return [compared_in(connection, earlier[series], late[series], series) for series in common]
    a = a or newest_date(connection)
    late = nights_by_series(connection, a)
    query = sa.select(NIGHT_SERIES.c.series, NIGHT_SERIES.c.night_id, NIGHT_SERIES.c.previous_night)
    rows = connection.execute(query.where(NIGHT_SERIES.c.night_id.in_(set(late.values()))))
    before = {row.series: row.previous_night for row in rows if late.get(row.series) == row.night_id}
    pairs = [(series, before[series]) for series in sorted(late) if before.get(series)]
    series_diffs = [since_night_before(connection, earlier, late[series], series) for series, earlier in pairs]
    alone = sorted(set(late) - {series for series, _ in pairs})
    if alone and series_diffs:
        series_diffs[0] = replace(
            series_diffs[0], notes=(*series_diffs[0].notes, f"there is no earlier night in {', '.join(alone)}")
        )
    return series_diffs


def _of_one_history(connection: sa.Connection, a: str, b: str) -> tuple[dict[str, str], dict[str, str]] | None:
    """Of two releases, the nights of the same models, boards and options that were run last, by series; None where they
    have none, or are no releases."""
    if not (release_in(a) and release_in(b)):
        return None
    before, now = nights_named(connection, a, "RUN_A"), nights_named(connection, b, "RUN_B")
    asked = {night_id.rpartition("-")[2]: night_id for night_id in reversed(before)}
    for night_id in now:
        if earlier := asked.get(night_id.rpartition("-")[2]):
            return newest_by_series(connection, [earlier]), newest_by_series(connection, [night_id])
    return None


def since_date(connection: sa.Connection, date: datetime) -> tuple[list[Diff], list[RunView]]:
    """Compares the newest night of each series with its last complete night before a date.

    Also returns the newest nights of series that have none before it. A series without a night on the date or later has
    stopped, and is left out. Raises InputError where no series has a night on the date or later, or none before it.
    """
    nights = sa.select(NIGHT_SERIES).join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
    nights = nights.where(NIGHTS.c.kind == "night", begun(NIGHTS.c.night_id)).order_by(
        NIGHT_SERIES.c.started, NIGHT_SERIES.c.night_id
    )
    late: dict[str, str] = {}
    earlier: dict[str, str] = {}
    firsts: dict[str, datetime] = {}
    lasts: dict[str, datetime] = {}
    newest = ""
    for night in connection.execute(nights).mappings():
        newest = max(newest, f"{night['date']:%Y-%m-%d}")
        if night["status"] == "complete":
            firsts.setdefault(night["series"], night["date"])
        if night["date"] < date and night["status"] == "complete":
            earlier[night["series"]] = night["night_id"]
        elif night["date"] >= date and night["series"] in series_of(connection, night["night_id"]):
            late[night["series"]], lasts[night["series"]] = night["night_id"], night["date"]
    if not late:
        got = f"{date:%Y-%m-%d}, and " + (f"the newest night is of {newest}" if newest else "no night")
        hint = "an earlier date" if newest else "opscope nightly"
        raise InputError("--since", "a date with a night on it or later", got, hint)
    pairs = [(earlier[series], late[series], series) for series in sorted(late) if series in earlier]
    if not pairs:
        expected = f"a complete night before {date:%Y-%m-%d} in a series that has one since"
        two_nights = [series for series in late if series in firsts and firsts[series] < lasts[series]]
        first = min((firsts[series] for series in two_nights), default=None)
        hint = f"--since {first + timedelta(days=1):%Y-%m-%d}" if first is not None else "opscope nightly"
        raise InputError("--since", expected, "none", hint)
    alone = [night_view(connection, late[series], series) for series in sorted(set(late) - set(earlier))]
    return [compared_in(connection, *pair) for pair in pairs], alone


def series_alone(connection: sa.Connection, a: str | None, diffs_of_date: Sequence[Diff]) -> list[RunView]:
    """The series of the night or date `a` (default: the newest) that no earlier night has, so that none of these
    comparisons is theirs."""
    compared_already = {diff.b.series for diff in diffs_of_date}
    late = nights_by_series(connection, a or newest_date(connection))
    return [night_view(connection, late[series], series) for series in sorted(set(late) - compared_already)]


def series_missing(connection: sa.Connection, night_ids: Iterable[str]) -> list[SeriesFacts]:
    """The series that were expected in some nights and have no run in any of them, for the first sentence."""
    nights = set(night_ids)
    present = {series for night_id in nights for series in series_of(connection, night_id)}
    rows = connection.execute(sa.select(NIGHT_SERIES).where(NIGHT_SERIES.c.night_id.in_(nights))).all()
    missing = {row.series: row for row in rows if row.series not in present}
    return [
        of_missing(series, place_asked_for(connection, row.backend, row.arch, series), row.previous_night)
        for series, row in sorted(missing.items())
    ]


def newest_date(
    connection: sa.Connection, where: str = "opscope diff", hint: str = "opscope publish --night FILE RUN_DIR"
) -> str:
    """The date of the newest night, which stands for all nights of that day. Raises InputError if there is none."""
    if newest_night(connection) is None:
        raise InputError(where, "a night", "none", hint)
    return newest_day(connection)


def since_night_before(connection: sa.Connection, earlier: str, late: str, series: str) -> Diff:
    """Compares a night in one series with the one before it: what `night_before` says of that."""
    return compared_in(connection, earlier, late, series, night_before)


def tonight(connection: sa.Connection, model: str | None = None) -> tuple[dict[str, str], tuple[str, ...]]:
    """Each series that has not stopped -> its newest night; and the others by name and date: those that have (with
    `model` in their last night), or have no run in their newest night. Empty where a single run is newer than all
    nights."""
    if newest_night(connection) is None:
        return {}, ()
    nights = sa.text(
        "SELECT d.series, d.night_id, d.platform, d.day, d.stopped, m.model FROM night_dates d "
        "JOIN nights n ON n.night_id = d.night_id "
        "LEFT JOIN night_models m ON m.night_id = d.night_id AND m.series = d.series AND m.model = :model "
        "WHERE d.newest = 1 AND n.kind = 'night' ORDER BY d.series"
    )
    rows = connection.execute(nights, {"model": model or ""}).all()
    ran = {night_id: series_of(connection, night_id) for night_id in {row.night_id for row in rows}}
    newest, others = {}, []
    for row in rows:
        if not row.stopped and row.series in ran[row.night_id]:
            newest[row.series] = row.night_id
        elif model in (None, row.model):
            since = "no night since" if row.stopped else "no run in the night of"
            others.append(f"{row.platform} ({since} {row.day})")
    return newest, tuple(others)


def compared_in(
    connection: sa.Connection, earlier: str, late: str, series: str, read: Callable[..., RunView] = night_view
) -> Diff:
    """Compares two nights in one series; `read` reads the earlier."""
    with gc_pause.paused():
        before, now = read(connection, earlier, series), night_view(connection, late, series)
        return compare(before, now, slower_between_nights(connection, before, now))
