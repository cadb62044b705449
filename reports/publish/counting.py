"""Counts a night: everything that follows from its records and is too slow to count at every query.

`count_night` makes all rows of a night in schema_nights.py anew, and those of the nights that are compared with it. The
result depends on the records in the database alone, not on the order in which they came.

A run of selected ops has no rows there once an earlier run tried its models whole: everything that speaks of the newest
night of a model would else call the ops that were left out unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from opscope.base.labels import BROKEN, COMPLETE, PARTIAL
from opscope.base.live import progress
from opscope.base.night_grid.due import overdue
from opscope.harness.record.stages import ModelStatus, depths
from opscope.reports.compare.commit_range import commit_of, shortened
from opscope.reports.compare.first_sentence import SERIES, date_of
from opscope.reports.compare.night_views import night_before, night_view, series_of
from opscope.reports.compare.outcomes import RunView
from opscope.reports.database.database import SETTINGS, open_database
from opscope.reports.database.endings import DEFAULT
from opscope.reports.database.newest import newest_day
from opscope.reports.database.rows import RAN, SELECTION, series_by_backend
from opscope.reports.database.schema import MODELS, NIGHT_CELLS, NIGHTS, OP_TESTS, RUNS
from opscope.reports.database.schema_nights import (
    COUNTED,
    NEWEST_OPS,
    NIGHT_COUNTS,
    NIGHT_MODELS,
    NIGHT_PAIRS,
    NIGHT_SERIES,
    NIGHT_STAGES,
    in_series,
    of_series,
)
from opscope.reports.database.series_names import board_tried
from opscope.reports.publish import bulk, counting_sql, night_counts, stored_causes
from opscope.reports.publish.night_changes import count_changes, count_fixes, rows_of
from opscope.reports.publish.sentences import renew_tonight, write_sentences

Row = dict[str, Any]

MISSING = "missing"
"""Outcome of a model that was expected but is in no run."""
OUTCOMES = (RAN, *map(str, ModelStatus))
"""What became of a model that was asked for: with those that are missing, the ledger of models."""
UNFINISHED = ("running", "interrupted")
"""Outcomes of a run whose night is not complete."""


RULES = "6"
"""Number of the rules by which nights are counted: of others are those of a database whose number is another. A change
of harness/record/causes.py takes the next number too, since causes are stored. 2: causes
are fingerprints without names of ops. 3: nights have the causes that fail for good. 4: a night in which the backend
fails every op is `broken`, and nothing is compared with it. 5: stored causes are made anew. 6: an
op that an error refuses in any words, without a reason, is a cause of its own."""


_COUNTED_BY = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "counted_by")


@contextmanager
def open_counted(url: str, where: str = "--to") -> Iterator[sa.Connection]:
    """As `open_database`; causes that were stored, and nights that were counted, by earlier rules are made anew."""
    with open_database(url, where) as connection:
        if (counted_by := connection.scalar(_COUNTED_BY)) != RULES:
            stored_causes.recompute(connection)
            nights = connection.scalars(sa.select(NIGHTS.c.night_id).order_by(NIGHTS.c.started)).all()
            for night_id in progress.each(nights, "night", len(nights)):
                _count_alone(connection, night_id)
                write_sentences(connection, night_id)
            renew_tonight(connection)
            setting = {"name": "counted_by", "value": RULES}
            if counted_by is None:
                connection.execute(sa.insert(SETTINGS), setting)
            else:
                connection.execute(sa.update(SETTINGS).where(SETTINGS.c.name == "counted_by").values(setting))
        yield connection


def count_night(connection: sa.Connection, night_id: str, where: str = "--to") -> None:
    """Counts the night again, and compares the nights that follow it again."""
    counted = _count_alone(connection, night_id)
    if counted is None:
        return
    night, all_series, series_of_runs = counted
    write_sentences(connection, night_id)
    for later, series in _followers(connection, night, all_series):
        _compare(connection, later, series)
        write_sentences(connection, later)
    if night["kind"] == "night" and date_of(night["label"]) < newest_day(connection):
        renew_tonight(connection)
    if night["kind"] != SELECTION:
        for selection_id in selections(connection, night["started"], series_of_runs):
            count_night(connection, selection_id, where)


THIS = sa.bindparam("of_night")
NIGHT = sa.select(NIGHTS).where(NIGHTS.c.night_id == THIS)
_RUNS = sa.select(RUNS).where(RUNS.c.night_id == THIS)
_SERIES = sa.select(NIGHT_SERIES.c.series).where(NIGHT_SERIES.c.night_id == THIS)


def _count_alone(connection: sa.Connection, night_id: str) -> tuple[Row, set[str], list[str]] | None:
    """Counts one night; the night, its series now and before, and those of its runs. None if it is not there."""
    this = {"of_night": night_id}
    night = connection.execute(NIGHT, this).mappings().one_or_none()
    if night is None:
        return None
    rows = connection.execute(_RUNS, this).mappings().all()
    runs = [backend_run for row in rows for backend_run in _by_backend(dict(row))]
    previous_series = connection.scalars(_SERIES, this).all()
    for table in reversed(COUNTED) if previous_series else ():  # a night that was not counted has no rows there
        connection.execute(sa.delete(table).where(table.c.night_id == night_id))
    if not runs and night["kind"] != "night":
        connection.execute(sa.delete(NIGHTS).where(NIGHTS.c.night_id == night_id))
    else:
        _count(connection, dict(night), runs)
    all_series = {run["series"] for run in runs} | set(previous_series)
    for name in sorted(all_series):
        _keep_newest_ops(connection, name)
    return dict(night), all_series, [row["series"] for row in rows]


def selections(connection: sa.Connection, since: datetime, series: Sequence[str] = ()) -> list[str]:
    """The runs of selected ops that started later than `since`, the oldest first; of the `series` of runs, if given."""
    return list(connection.scalars(_selections(bool(series)), {"since": since, "names": series}))


@cache
def _selections(of_some: bool) -> sa.Select[str]:
    query = sa.select(NIGHTS.c.night_id).where(NIGHTS.c.kind == SELECTION, NIGHTS.c.started > sa.bindparam("since"))
    if of_some:
        names = sa.bindparam("names", expanding=True)
        query = query.join(RUNS, RUNS.c.night_id == NIGHTS.c.night_id).where(RUNS.c.series.in_(names))
    return query.order_by(NIGHTS.c.started, NIGHTS.c.night_id)


def _left_out(connection: sa.Connection, night: Row, runs: Sequence[Row]) -> bool:
    """Whether this is a run of selected ops all of whose models ran in an earlier run in which no op was deselected."""
    if night["kind"] != SELECTION or not runs:
        return False
    ran = sa.select(MODELS.c.model).where(MODELS.c.outcome == RAN)
    whole = (
        ran.join(RUNS, RUNS.c.run_id == MODELS.c.run_id)
        .join(NIGHTS, NIGHTS.c.night_id == RUNS.c.night_id)
        .where(NIGHTS.c.kind != SELECTION, RUNS.c.outcome != "running", RUNS.c.started < night["started"])
        .where(RUNS.c.series == sa.select(RUNS.c.series).where(RUNS.c.run_id == runs[0]["run_id"]).scalar_subquery())
    )
    own = set(connection.scalars(ran.where(MODELS.c.run_id == runs[0]["run_id"])))
    return own <= set(connection.scalars(whole.distinct()))


def _by_backend(run: Row) -> list[Row]:
    """One row per backend of a run, each in a series of its own."""
    series_of_backends = series_by_backend(run["backend"], run["arch"], run["options"])
    return [{**run, "backend": backend, "series": series} for backend, series in series_of_backends.items()]


_ALONE = (
    sa.update(OP_TESTS)
    .where(OP_TESTS.c.night_id == THIS, OP_TESTS.c.superseded_by != "")
    .where(OP_TESTS.c.superseded_by != sa.bindparam("of_run"))
    .values(superseded_by="")
)


def _count(connection: sa.Connection, night: Row, runs: list[Row]) -> None:
    if len({run["run_id"] for run in runs}) > 1:
        connection.execute(counting_sql.SUPERSEDE, {"night": night["night_id"]})
    elif runs:
        connection.execute(_ALONE, {"of_night": night["night_id"], "of_run": runs[0]["run_id"]})
    if _left_out(connection, night, runs):
        return
    models_of_series = _models(connection, night, runs)
    for series, models in models_of_series.items():
        row = _series_row(night, series, [run for run in runs if run["series"] == series], models, runs)
        row["board"] = board_tried(connection, night["night_id"], series, row["arch"])
        if models:
            connection.execute(_ADD_MODELS, [_blank(night, series, model) for model in models])
        connection.execute(_ADD_SERIES, [row])
        view = _ops(connection, night["night_id"], series)
        if view is not None and view.broken:
            connection.execute(_CHANGE_SERIES, {**of_series(night["night_id"], series), "status": BROKEN})
        _compare(connection, night["night_id"], series, view)


_ADD_MODELS, _ADD_SERIES = sa.insert(NIGHT_MODELS), sa.insert(NIGHT_SERIES)
_CHANGE_SERIES = sa.update(NIGHT_SERIES).where(in_series(NIGHT_SERIES))
"""Sets the columns whose values stand beside those of `of_series`."""
_NEWEST = sa.select(NEWEST_OPS.c.night_id).where(NEWEST_OPS.c.series == sa.bindparam("series")).limit(1)


def _keep_newest_ops(connection: sa.Connection, series: str) -> None:
    """Stores the ops of the newest night of a series, unless they are there, and removes those of earlier nights."""
    connection.execute(counting_sql.FORGET_OPS, {"series": series})
    if connection.scalar(_NEWEST, {"series": series}) is None:  # those of another night were removed
        connection.execute(counting_sql.NEWEST_OPS, {"series": series})


def _ops(connection: sa.Connection, night_id: str, series: str) -> RunView | None:
    """Counts the ops of a night; returns its view, or None if it has no run."""
    if series not in series_of(connection, night_id):
        return None
    view = night_view(connection, night_id, series)
    rows = ([night_id, series, *row] for row in night_counts.counts(view))
    bulk.insert(connection, NIGHT_COUNTS, rows)
    numbers = depths({op.stage for op in view.ops.values()}, view.climbs)
    bulk.insert(connection, NIGHT_STAGES, ([night_id, series, *row] for row in numbers.items()))
    connection.execute(counting_sql.COVERAGE, {"night": night_id, "series": series})
    for model, counted in night_counts.models(view).items():
        connection.execute(_CHANGE_MODEL, {**of_series(night_id, series), "of_model": model, **counted})
    count_fixes(connection, view)
    return view


_CHANGE_MODEL = sa.update(NIGHT_MODELS).where(in_series(NIGHT_MODELS), NIGHT_MODELS.c.model == sa.bindparam("of_model"))


def _blank(night: Row, series: str, model: Row) -> Row:
    return {"night_id": night["night_id"], "series": series, **model, **dict.fromkeys(night_counts.COUNTS, 0)}


# --- models, and what is missing


_MODELS = (
    sa.select(MODELS)
    .join(RUNS, RUNS.c.run_id == MODELS.c.run_id)
    .where(RUNS.c.night_id == THIS)
    .order_by(MODELS.c.outcome == "ran", RUNS.c.started, RUNS.c.run_id)
)
_CELLS = sa.select(NIGHT_CELLS).where(NIGHT_CELLS.c.night_id == THIS)


def _models(connection: sa.Connection, night: Row, runs: list[Row]) -> dict[str, list[Row]]:
    """Series -> its models, each by the newest run that has it; those that were expected and are missing too."""
    models_by_series: dict[str, dict[str, Row]] = {run["series"]: {} for run in runs}
    this = {"of_night": night["night_id"]}
    for row in connection.execute(_MODELS, this).mappings():
        fields = {name: row[name] for name in ("model", "outcome", "reason", "run_id", "module_id")}
        for run in runs:
            if run["run_id"] == row["run_id"]:
                models_by_series[run["series"]][row["model"]] = fields
    for cell in connection.execute(_CELLS, this).all():
        fitting = [run["series"] for run in runs if _fits(run, cell)]
        fitting = fitting or [" ".join(filter(None, (cell.backend, cell.arch, cell.data_format)))]
        if not any(cell.model in models_by_series.get(series, {}) for series in fitting):
            absent = {"model": cell.model, "outcome": MISSING, "reason": "", "run_id": "", "module_id": None}
            for series in fitting:
                models_by_series.setdefault(series, {})[cell.model] = absent
    return {series: [models[name] for name in sorted(models)] for series, models in sorted(models_by_series.items())}


def _fits(run: Row, cell: Any) -> bool:
    same = (run["backend"], run["arch"]) == (cell.backend, cell.arch)
    return same and cell.data_format in ("", run["options"].get("data_format"))


def _series_row(night: Row, series: str, runs: list[Row], models: list[Row], all_runs: list[Row]) -> Row:
    first = runs[0] if runs else {}
    options = first.get("options", {})
    outcomes = [model["outcome"] for model in models]
    missing = [f"model {model['model']}" for model in models if model["outcome"] == MISSING]
    shards = {run["shard"] for run in all_runs}
    missing += [f"shard {number}" for number in range(1, night["shards"] + 1) if number not in shards]
    missing += _shares_missing(runs, {f"shard {number}" for number in range(1, night["shards"] + 1)} & set(missing))
    missing += [f"run {run['run_id']} is {run['outcome']}" for run in runs if run["outcome"] in UNFINISHED]
    parts = series.split(" ")
    return {
        "night_id": night["night_id"],
        "series": series,
        "backend": first.get("backend", parts[0]),
        "arch": first.get("arch", parts[1] if len(parts) > 1 else ""),
        **{name: str(options.get(name) or "") for name in ("dtype", "math_fidelity")},
        "data_format": str(options.get("data_format") or "".join(parts[2:3] if not first else ()) or DEFAULT),
        "started": night["started"],
        "date": datetime.fromisoformat(night["label"][:10]).replace(tzinfo=UTC),
        "due": overdue(night["started"], night["zone"], night["config"]),
        "previous_night": "",
        "compiler": _joined(run["compiler"] for run in runs),
        "jaxlib": _joined(run["jaxlib"] for run in runs),
        "revision": _joined(shortened(commit_of(run, run["backend"]).revision, 12) for run in runs),
        **dict.fromkeys(("compiler_changed", "jaxlib_changed", "models_changed"), False),
        "status": PARTIAL if missing else COMPLETE,
        "missing": ", ".join(missing),
        "asked": len(models),
        **{outcome: outcomes.count(outcome) for outcome in OUTCOMES},
        "models_missing": outcomes.count(MISSING),
    }


def _shares_missing(runs: list[Row], named_already: set[str]) -> list[str]:
    """Shares of `--shard` that no run of this series is, so that their ops are missing, without `named_already`."""
    shares = [str(run["options"]["shard"]).split("/") for run in runs if run["options"].get("shard")]
    if not shares:
        return []
    count = max(int(share[1]) for share in shares)
    present = {int(share[0]) for share in shares}
    absent = [f"shard {number}" for number in range(1, count + 1) if number not in present]
    return [share_name for share_name in absent if share_name not in named_already]


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(sorted({text for text in texts if text}))


# --- the night before


def _compare(connection: sa.Connection, night_id: str, series: str, view: RunView | None = None) -> None:
    """Compares one night, read already or not, with the one before it in its series, as both are now."""
    this = of_series(night_id, series)
    row = connection.execute(SERIES, this).mappings().one()
    connection.execute(rows_of(NIGHT_PAIRS), this)
    before = _before(connection, dict(row))
    changes: Row = {"previous_night": "", "compiler_changed": False, "jaxlib_changed": False, "models_changed": False}
    if before is not None:
        changes = {
            "previous_night": before["night_id"],
            "compiler_changed": before["compiler"] != row["compiler"],
            "jaxlib_changed": before["jaxlib"] != row["jaxlib"],
            "models_changed": _ran(connection, before["night_id"], series) != _ran(connection, night_id, series),
        }
    connection.execute(_CHANGE_SERIES, this | changes)
    if view is None and series in series_of(connection, night_id):
        view = night_view(connection, night_id, series)
    if view is None:
        return
    earlier = None if before is None else night_before(connection, before["night_id"], series)
    if earlier is not None:
        rows = ([night_id, series, *row] for row in night_counts.pairs(earlier, view))
        bulk.insert(connection, NIGHT_PAIRS, rows)
    count_changes(connection, view, earlier)


def _ran(connection: sa.Connection, night_id: str, series: str) -> set[str]:
    return set(connection.scalars(_RAN, of_series(night_id, series)))


_RAN = sa.select(NIGHT_MODELS.c.model).where(in_series(NIGHT_MODELS), NIGHT_MODELS.c.outcome == RAN)


def _before(connection: sa.Connection, row: Row) -> Row | None:
    """The newest earlier night of the same kind and series with a model in common, in which the backend worked."""
    this = of_series(row["night_id"], row["series"])
    night = connection.execute(_EARLIER, {**this, "before": row["started"]}).mappings().one_or_none()
    return None if night is None else dict(night)


def _earlier() -> sa.Select[*tuple[Any, ...]]:
    kind = sa.select(NIGHTS.c.kind).where(NIGHTS.c.night_id == THIS).scalar_subquery()
    own_models, earlier_models, name = NIGHT_MODELS.alias(), NIGHT_MODELS.alias(), sa.bindparam("of_series")
    common = (
        sa.select(own_models.c.model)
        .where(in_series(own_models), own_models.c.outcome == RAN)
        .where(earlier_models.c.night_id == NIGHT_SERIES.c.night_id, earlier_models.c.series == name)
        .where(earlier_models.c.outcome == "ran", earlier_models.c.model == own_models.c.model)
    )
    return (
        sa.select(NIGHT_SERIES)
        .join(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.night_id)
        .where(NIGHT_SERIES.c.series == name, NIGHT_SERIES.c.started < sa.bindparam("before"), NIGHTS.c.kind == kind)
        .where(common.exists(), NIGHT_SERIES.c.status != BROKEN)
        .order_by(NIGHT_SERIES.c.started.desc(), NIGHT_SERIES.c.night_id.desc())
        .limit(1)
    )


_EARLIER = _earlier()


def _followers(connection: sa.Connection, night: Row, series: Iterable[str]) -> list[tuple[str, str]]:
    """(night, series) of those later nights whose predecessor is this one, was this one, or should be this one now."""
    followers = []
    for name in sorted(series):
        later = connection.execute(_LATER, {"series": name, "since": night["started"]})
        for night_id, previous, started in later.all():
            if previous == night["night_id"] or started is None or started < night["started"]:
                followers.append((night_id, name))
    return followers


_LATER = (
    sa.select(NIGHT_SERIES.c.night_id, NIGHT_SERIES.c.previous_night, NIGHTS.c.started)
    .outerjoin(NIGHTS, NIGHTS.c.night_id == NIGHT_SERIES.c.previous_night)
    .where(NIGHT_SERIES.c.series == sa.bindparam("series"), NIGHT_SERIES.c.started > sa.bindparam("since"))
)
