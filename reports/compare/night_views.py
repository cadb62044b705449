"""Nights for comparisons: the series of a night, and the ops of one series as a RunView."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa

from opscope.base.labels import COMPLETE
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.optest import backend_label, release_in
from opscope.reports.compare.outcomes import RunView, Selected, imports_of, no_such_run, with_ops
from opscope.reports.database.reading import how_to_publish
from opscope.reports.database.rows import RAN, RELEASE, series_by_backend
from opscope.reports.database.schema import NIGHTS, OP_TESTS, RUNS
from opscope.reports.database.schema_nights import NIGHT_MODELS, NIGHT_SERIES, in_series, of_series
from opscope.reports.database.whole_models import counting


def is_night(connection: sa.Connection, night_id: str) -> bool:
    """Whether there is a night with that id; single runs do not count."""
    query = sa.select(NIGHTS.c.night_id).where(NIGHTS.c.night_id == night_id, NIGHTS.c.kind.in_(("night", RELEASE)))
    return connection.scalar(query) is not None


def nights_named(connection: sa.Connection, name: str, where: str = "NIGHT") -> list[str]:
    """The ids of all nights that `name` names by an id or a label, the newest first.

    `2026-11-20` names those of a whole day; of nights that started together, the one with most models comes first.
    `tt@0.1.2` names those of a release, all of which have its date: the one that was run last comes first.

    Raises InputError if there is none.
    """
    if is_night(connection, name):
        return [name]
    query = sa.select(NIGHTS.c.night_id, NIGHTS.c.label, NIGHTS.c.started, NIGHTS.c.models)
    nights = connection.execute(query.where(NIGHTS.c.kind == "night")).all()
    matching = [night for night in nights if name in (night.label, night.label.partition(" ")[0])]
    if release_in(name):
        of_release = sa.select(RUNS.c.night_id).where(RUNS.c.backend == backend_label(name))
        made = sa.select(sa.func.max(RUNS.c.started)).where(RUNS.c.night_id == NIGHTS.c.night_id).scalar_subquery()
        releases = query.where(NIGHTS.c.kind == RELEASE, NIGHTS.c.night_id.in_(of_release))
        return [night.night_id for night in connection.execute(releases.order_by(made.desc(), NIGHTS.c.night_id))]
    if matching:
        matching.sort(key=lambda night: (night.started, len(night.models), night.night_id), reverse=True)
        return [night.night_id for night in matching]
    known = [] if release_in(name) else [night.night_id for night in nights]
    raise InputError(where, "a night", f"`{name}`", closest(name, known, 3) or how_to_publish(name))


def nights_by_series(connection: sa.Connection, name: str, where: str = "NIGHT") -> dict[str, str]:
    """Each series of the nights that `name` names -> the newest of these nights that has it.

    What every command does with a date: its nights need not have started together, or with the same series.
    """
    return newest_by_series(connection, nights_named(connection, name, where))


def newest_by_series(connection: sa.Connection, nights: Sequence[str]) -> dict[str, str]:
    """Each series of `nights`, the newest of which comes first -> the newest that has it."""
    return {series: night_id for night_id in reversed(nights) for series in series_of(connection, night_id)}


def night_of(connection: sa.Connection, run_id: str, where: str = "NIGHT") -> str:
    """The night that a published run belongs to. Raises InputError, with the closest id, where there is none."""
    night_id = connection.scalar(sa.select(RUNS.c.night_id).where(RUNS.c.run_id == run_id))
    if night_id is None:
        raise no_such_run(connection, run_id, where, "a night, ")
    return night_id


def series_of(connection: sa.Connection, night_id: str) -> list[str]:
    """The series of a night that have a run."""
    runs = connection.execute(_LANES, {"night": night_id}).all()
    return sorted({series for run in runs for series in series_by_backend(run.backend, run.arch, run.options).values()})


_LANES = sa.select(RUNS.c.backend, RUNS.c.arch, RUNS.c.options).where(RUNS.c.night_id == sa.bindparam("night"))


def newest_run(connection: sa.Connection, night_id: str, series: str) -> sa.RowMapping | None:
    """The newest run of a night in one series, with its origin; None if there is none."""
    runs = _runs(connection, night_id, series)
    return runs[0][0] if runs else None


def _runs(connection: sa.Connection, night_id: str, series: str) -> list[tuple[sa.RowMapping, str]]:
    """The runs of a night in one series, the newest first, each with its backend there."""
    runs = connection.execute(_RUNS, {"night": night_id}).mappings().all()
    return [
        (run, backend)
        for run in runs
        for backend, series_of_backend in series_by_backend(run["backend"], run["arch"], run["options"]).items()
        if series_of_backend == series
    ]


_RUNS = (
    sa.select(RUNS)
    .where(RUNS.c.night_id == sa.bindparam("night"))
    .order_by(RUNS.c.started.desc(), RUNS.c.run_id.desc())
)
_NIGHT = (
    sa.select(NIGHT_SERIES.c.status, NIGHT_SERIES.c.missing, NIGHTS.c.started, NIGHTS.c.label)
    .join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
    .where(in_series(NIGHT_SERIES))
)
_MODELS = sa.select(NIGHT_MODELS.c.model, NIGHT_MODELS.c.module_id, NIGHT_MODELS.c.outcome).where(
    in_series(NIGHT_MODELS)
)
COUNT = in_series(OP_TESTS) & (OP_TESTS.c.superseded_by == "")
"""The rows of `op_tests` that count of a night in one series."""


def night_view(connection: sa.Connection, night_id: str, series: str) -> RunView:
    """The night in one series, from the rows that count. Its origin is that of its newest run."""
    here = of_series(night_id, series)
    runs = _runs(connection, night_id, series)
    run, backend = runs[0]
    night_row = connection.execute(_NIGHT, here).one()
    asked = connection.execute(_MODELS, here).all()
    modules = {row.model: row.module_id for row in asked if row.outcome == RAN}
    missing = tuple(night_row.missing.split(", ")) if night_row.missing else ()
    imports = imports_of(connection, [each["run_id"] for each, _ in reversed(runs)])
    view = RunView(
        night_id,
        "night",
        backend,
        run["arch"],
        night_row.started,
        night_row.status,
        run,
        series,
        missing=missing,
        imports=imports,
        day=night_row.label[:10],
        asked=tuple(row.model for row in asked if row.outcome != RAN),
    )
    return with_ops(connection, view, modules, Selected(COUNT, here), counting(connection, night_id, [series]))


def night_before(connection: sa.Connection, night_id: str, series: str) -> RunView:
    """A night as the one after it is compared with it: ops that a partial one did not try are as the last complete
    night before it left them, so that none of them is new because of it."""
    view = night_view(connection, night_id, series)
    last = last_complete(connection, night_id, series)
    if last in ("", night_id):
        return view
    older = night_view(connection, last, series)
    untried = {
        op_id: op
        for op_id, op in older.ops.items()
        if not (view.ops[op_id].attempted if op_id in view.ops else set(op.uses_of) & set(view.models))
    }
    programs = {**older.programs, **view.programs}
    return replace(
        view, ops={**view.ops, **untried}, programs=programs, complete=older, from_complete=frozenset(untried)
    )


def last_complete(connection: sa.Connection, night_id: str, series: str) -> str:
    """The newest complete night of a series up to a night, that night among them; empty if there is none."""
    return connection.scalar(_LAST_COMPLETE, of_series(night_id, series)) or ""


def _last_complete() -> sa.Select[str]:
    until, kind = (
        sa.select(column).where(NIGHTS.c.night_id == sa.bindparam("of_night")).scalar_subquery()
        for column in (NIGHTS.c.started, NIGHTS.c.kind)
    )
    of_kind = (NIGHT_SERIES.c.series == sa.bindparam("of_series")) & (NIGHTS.c.kind == kind)
    return (
        sa.select(NIGHT_SERIES.c.night_id)
        .join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
        .where(of_kind, NIGHT_SERIES.c.started <= until, NIGHT_SERIES.c.status == COMPLETE)
        .order_by(NIGHT_SERIES.c.started.desc(), NIGHT_SERIES.c.night_id.desc())
        .limit(1)
    )


_LAST_COMPLETE = _last_complete()


def night_views(connection: sa.Connection, name: str, where: str = "NIGHT") -> list[RunView]:
    """Each series of the nights that `name` names, in the newest of them that has it."""
    nights = sorted(nights_by_series(connection, name, where).items())
    return [night_view(connection, night_id, series) for series, night_id in nights]
