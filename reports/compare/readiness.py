"""How near each model is to being whole, and how that changed from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from opscope.base.statuses import NOT_ATTEMPTED
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.stages import FAILED
from opscope.reports.compare.night_diff import names_night, tonight
from opscope.reports.compare.night_times import with_zones
from opscope.reports.compare.night_views import night_view, night_views
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.owned import own_missing
from opscope.reports.compare.run_selection import Listed, Runs, open_runs
from opscope.reports.compare.unblock import Missing, missing
from opscope.reports.compare.whole_since import Night, Since, whole_since
from opscope.reports.database.newest import begun
from opscope.reports.database.owners import rules_here
from opscope.reports.database.schema import MODELS, MODULE_OPS, NIGHTS, OP_TESTS, OPS, RUNS

HISTORY = 30
"""Most runs in a model's history."""


@dataclass(frozen=True)
class Counted:
    """A model in one run, in unique ops."""

    run_id: str
    started: str
    """Date and time with its zone."""
    revision: str
    """The compiler's."""
    ops: int
    missing: int
    not_attempted: int
    right: int


@dataclass(frozen=True)
class Readiness:
    """What keeps one model from being whole in a run, and how it was before."""

    view: RunView
    model: str
    missing: Sequence[Missing]
    """Its ops that are not right."""
    runs: Sequence[Counted]
    """Earlier runs and this one, oldest first."""
    nights: Sequence[Night] = ()
    since: Since | None = None
    left_out: Sequence[Listed] = ()
    """Later runs, of selected ops, that do not count."""
    stopped: Sequence[str] = ()
    """The series with this model that have stopped, or have no run in their newest night, by name and date."""


def readiness_of(
    model: str, url: str | None, run: str | None, team: str | None, owners: Path | None
) -> tuple[list[Readiness], bool]:
    """How near a model is to being whole in each series of a night or run (default: `views_asked_for`), and whether
    these are series of a night that was named. Raises InputError for a model that none of them has."""
    with open_runs(url) as runs:
        views, night = views_asked_for(runs, run, "--run", model)
        known = sorted({name for view in views for name in view})
        if model not in known:
            what = f"night {run}" if night else f"run {next(iter(views[0].values())).run_id}"
            raise InputError("MODEL", f"a model of {what}", f"`{model}`", closest(model, known, 3))
        rules = rules_here(runs.connection, owners, team=team)
        stopped = tonight(runs.connection, model)[1] if run is None and runs.connection is not None else ()
        of_series: list[Readiness] = []
        for view in (view[model] for view in views if model in view):
            nights = nights_of(runs.connection, view, model)
            of_series.append(
                Readiness(
                    view,
                    model,
                    own_missing(missing(view, model), model, rules, team),
                    history(runs, view, model),
                    nights,
                    since_of(runs.connection, view, nights) if run is None else None,
                    newer_selections(runs, [{model: view}]) if run is None else [],
                    () if of_series else stopped,
                )
            )
    return of_series, night


def views_asked_for(
    runs: Runs, run: str | None, where: str = "RUN", model: str | None = None
) -> tuple[list[dict[str, RunView]], bool]:
    """Model -> its run, for each series that is asked about, and whether these are series of a night that was named.

    Without a name the newest night of each series that has not stopped; where there is none (with that model), or a run
    is newer, each model in its newest run. Raises InputError for what no run has.
    """
    connection = runs.connection
    if run is not None:
        if connection is not None and runs.folder(run) is None and names_night(connection, run):
            return [views_of(view) for view in night_views(connection, run, where)], True
        return [views_of(view) for view in runs.views(run, where)], False
    newest = tonight(connection)[0] if connection is not None else {}
    views = [views_of(night_view(connection, of, series)) for series, of in newest.items() if connection is not None]
    if views := [view for view in views if model is None or model in view]:
        return views, False
    runs.newest()  # or there is none
    return newest_views(runs, [model] if model is not None else ()), False


def newest_views(runs: Runs, models: Sequence[str] = ()) -> list[dict[str, RunView]]:
    """Model -> its newest run, among the runs of the newest run's series; `newer_selections` are left out.

    One for each backend of these runs. Runs on another backend or board or with other options do not count here. Raises
    InputError for a model that no run has.
    """
    listed = runs.counting()
    newest = listed[0] if not models else _newest_with(listed, models)
    newest_of_models: dict[str, Listed] = {}
    for run in listed:
        if run.series == newest.series:
            for model in run.models:
                newest_of_models.setdefault(model, run)
    wanted = {model: newest_of_models[model] for model in models or sorted(newest_of_models)}
    each = {run.run_id: run for run in wanted.values()}.values()
    of_backends = []
    for backend in newest.backends if len(newest.backends) > 1 else ("",):
        views = {run.run_id: runs.read(run, backend) for run in each}
        of_backends.append({model: views[run.run_id] for model, run in wanted.items()})
    return of_backends


def newer_selections(runs: Runs, views: Iterable[Mapping[str, RunView]]) -> list[Listed]:
    """The runs of selected ops that are newer than the run in which their model was looked at, and were left out."""
    seen = [(model, view) for of_series in views for model, view in of_series.items()]
    return [
        run
        for run in runs.left_out()
        if any(model in run.models and run.series == view.series and run.started > view.started for model, view in seen)
    ]


def _newest_with(listed: Sequence[Listed], models: Sequence[str]) -> Listed:
    for run in listed:
        if set(models) <= run.models:
            return run
    models_of_runs = sorted({model for run in listed for model in run.models})
    raise InputError("MODEL", "a model that a run has", f"`{', '.join(models)}`", closest(models[0], models_of_runs, 3))


def views_of(view: RunView) -> dict[str, RunView]:
    """The run for each of its models."""
    return dict.fromkeys(view.models, view)


def history(runs: Runs, view: RunView, model: str) -> list[Counted]:
    """The model's runs of the same series up to this one, oldest first: its ops, how many are right or missing."""
    rows = [_counts(view, model)]
    if runs.connection is not None:
        listed = runs.before(view.run_id, view.started, view.series, [model])
        earlier = [run for run in listed if model in run.models]
        ids = [run.run_id for run in earlier[: HISTORY - 1]]
        rows = [*_counted(runs.connection, ids, model, view.backends), *rows]
    return rows


def _counts(view: RunView, model: str) -> Counted:
    ops = [op for op in view.ops.values() if model in op.uses_of]
    return _row(
        view.run_id,
        view.started,
        view.origin["backend_revision"],
        len(ops),
        sum(op.bad for op in ops),
        sum(not op.attempted for op in ops),
    )


def _row(run_id: str, started: datetime, revision: str, ops: int, missing: int, unattempted: int) -> Counted:
    return Counted(run_id, started.isoformat(), revision, ops, missing, unattempted, ops - missing - unattempted)


def _counted(connection: sa.Connection, run_ids: Sequence[str], model: str, backends: Sequence[str]) -> list[Counted]:
    """The same counts by SQL, without reading the ops one by one."""
    # An op without a test could not be split off, and holds the model back all the same, or was not reached.
    untested = OP_TESTS.c.op_id.is_(None)
    bad = (untested & (OPS.c.unsplittable != "")) | OP_TESTS.c.status.in_([str(status) for status in FAILED])
    idle = (untested & (OPS.c.unsplittable == "")) | OP_TESTS.c.status.in_(sorted(NOT_ATTEMPTED))
    counted = (
        sa.select(
            MODELS.c.run_id,
            sa.func.count(),
            sa.func.sum(sa.case((bad, 1), else_=0)),
            sa.func.sum(sa.case((idle, 1), else_=0)),
        )
        .join(MODULE_OPS, MODULE_OPS.c.module_id == MODELS.c.module_id)
        .join(OPS, OPS.c.op_id == MODULE_OPS.c.op_id)
        .outerjoin(
            OP_TESTS,
            (OP_TESTS.c.run_id == MODELS.c.run_id)
            & (OP_TESTS.c.op_id == MODULE_OPS.c.op_id)
            & (OP_TESTS.c.superseded_by != OP_TESTS.c.run_id)
            & OP_TESTS.c.backend.in_(backends),
        )
        .where(MODELS.c.run_id.in_(run_ids), MODELS.c.model == model)
        .group_by(MODELS.c.run_id)
    )
    sums = {row[0]: tuple(int(value) for value in row[1:]) for row in connection.execute(counted)}
    runs = connection.execute(
        sa.select(RUNS.c.run_id, RUNS.c.started, RUNS.c.backend_revision)
        .where(RUNS.c.run_id.in_(run_ids))
        .order_by(RUNS.c.started)
    )
    return [_row(run_id, started, revision, *sums.get(run_id, (0, 0, 0))) for run_id, started, revision in runs]


def nights_of(connection: sa.Connection | None, view: RunView, model: str) -> list[Night]:
    """The model's nights in the series of this run, oldest first: the rows of the view `model_readiness`."""
    if connection is None:
        return []
    names = ("outcome", "reason", "ops", "right_ops", "bad_ops", "not_attempted", "whole")
    columns = ("night_id", "night", "started", *names, "kind", "series", "model")
    ready = sa.table("model_readiness", *(sa.column(name) for name in columns))
    started = sa.type_coerce(ready.c.started, NIGHTS.c.started.type).label("started")
    query = (
        sa.select(ready.c.night_id, ready.c.night.label("label"), *(ready.c[name] for name in names), started)
        .where(ready.c.model == model, ready.c.series == view.series, ready.c.kind == "night", begun(ready.c.night_id))
        .order_by(ready.c.started.desc())
        .limit(HISTORY)
    )
    rows = [dict(row) for row in connection.execute(query).mappings()]
    rows = with_zones(connection, [{**row, "started": row["started"].isoformat()} for row in reversed(rows)])
    return [Night(**row) for row in rows]


def since_of(connection: sa.Connection | None, view: RunView, nights: Sequence[Night]) -> Since | None:
    """Since when a model is as it is in its newest night, given what `nights_of` returns."""
    if connection is None or not nights:
        return None
    return whole_since(connection, nights[::-1], view.series, view.backend)
