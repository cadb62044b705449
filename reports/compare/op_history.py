"""History of an op, readiness of a model, or a published run, from the database as plain values."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from opscope.base.source_places import here
from opscope.harness.record.causes import cause_named, may_name_cause
from opscope.harness.record.commits.checkout import Commit
from opscope.harness.record.errors import InputError, closest
from opscope.harness.record.records import TAKEN
from opscope.harness.record.stages import Status, in_order
from opscope.reports.compare.commit_range import CommitRange, commit_of
from opscope.reports.compare.night_times import timed, with_zones
from opscope.reports.compare.night_views import COUNT
from opscope.reports.compare.outcomes import RunView, Selected, aliases, climbs_of, from_database
from opscope.reports.compare.whole_since import whole_since
from opscope.reports.database.newest import begun
from opscope.reports.database.notes import read_notes
from opscope.reports.database.owners import Rule, owner
from opscope.reports.database.reading import how_to_publish
from opscope.reports.database.rows import RELEASE, SELECTION
from opscope.reports.database.schema import MODELS, MODULE_OPS, NIGHTS, OP_ALIAS, OP_TESTS, OPS, RUNS, USES
from opscope.reports.database.schema_nights import NIGHT_CHANGES, NIGHT_FIXES, NIGHT_SERIES, of_series
from opscope.reports.database.series_names import board_in, names_of, series_name
from opscope.reports.records.columns import plain

if TYPE_CHECKING:
    from opscope.wire import show

OP_ID = re.compile(r"[0-9a-f]{16}")
HISTORY_NIGHTS = 30
"""Number of nights in a history."""
UNATTEMPTED = (Status.NOT_RUN, Status.SKIPPED)
"""Statuses of nights that say nothing of an op."""
MOST_IDS = 3
"""Most ids in an error."""
PLACES = 10
"""Most places of an op that are listed."""

Details = dict[str, Any]

HISTORY = (
    *("night", "night_id", "backend", "arch", "data_format", "status", "failed_stage", "z_max", "pcc", "cycles"),
    *("compile_ms", "ran_on", "card_type", "flaky", "expected", "error_signature", "cause", "error_message"),
    *("artifact", "run_id", "repro"),
)
ORDERED_BY = ("kind", "series")
"""Columns that say which nights follow each other; they are not shown."""
READY = (
    *("night", "night_id", "backend", "arch", "data_format", "outcome", "reason"),
    *("ops", "right_ops", "bad_ops", "not_attempted", "whole", "readiness"),
)
BLOCKS = (
    *("op_id", "op_name", "signature", "uses", "status", "failed_stage", "depth", "cluster"),
    *("error_message", "expected", "flaky", "label", "repro"),
)
BLOCKS_OF_NIGHT = tuple(name for name in BLOCKS if name != "depth")
_LABEL = {"night": "label"}
_FAILURES = {"failed_stage": "stage", "error_message": "message", "expected": "known"}
JSON_NAMES = {
    **dict.fromkeys(("night_ops", "model_readiness"), _LABEL),
    **dict.fromkeys(("night_failures", "model_blockers"), _FAILURES),
}
"""View -> the columns that details name otherwise."""


def find(connection: sa.Connection, name: str, rules: Sequence[Rule], team: str | None) -> show.Details:
    """Details of the run, op, model or cause `name`, with its kind in `what`; InputError tells the closest names.

    `notes` has what people wrote about the causes in it.
    """
    from opscope.wire import show

    details = _find(connection, name, rules, team)
    causes = set(_causes_in(details))
    notes = tuple(note for cause, note in read_notes(connection).items() if cause in causes)
    kinds = {"op": show.Op, "model": show.Model, "cause": show.Cause, "run": show.PublishedRun}
    return kinds[details["what"]](**details, notes=notes)


def _causes_in(details: Any) -> Iterator[str]:
    if isinstance(details, dict):
        yield from (str(details[name]) for name in ("cause", "cluster") if details.get(name))
        details = list(details.values())
    if isinstance(details, list):
        for inner in details:
            yield from _causes_in(inner)


def _find(connection: sa.Connection, name: str, rules: Sequence[Rule], team: str | None) -> Details:
    if OP_ID.fullmatch(name) and (details := op(connection, name, rules, team)):
        return details
    if connection.scalar(sa.select(RUNS.c.run_id).where(RUNS.c.run_id == name)) is not None:
        return run(from_database(connection, name), rules, team)
    if connection.scalar(sa.select(MODELS.c.model).where(MODELS.c.model == name).limit(1)) is not None:
        return model(connection, name, rules, team)
    if may_name_cause(name) and (causes := causes_beginning(connection, name)):
        return cause(connection, cause_named(name, causes, "WHAT"), rules, team)
    models = connection.scalars(sa.select(MODELS.c.model).distinct().order_by(MODELS.c.model)).all()
    expected = "a run, the id of an op (16 hex digits) or of a cause (8), or a model of the database"
    hint = _similar_ids(connection, name) or (closest(name, models, 3) if models else how_to_publish())
    raise InputError("WHAT", expected, f"`{name}`", hint)


def _similar_ids(connection: sa.Connection, name: str) -> str:
    """Ids of ops with that name, with or without its dialect, or whose id begins with it."""
    query = (
        sa.select(OPS.c.op_id)
        .where(
            sa.or_(
                OPS.c.op_name == name,
                OPS.c.op_name.endswith(f".{name}", autoescape=True),
                OPS.c.op_id.startswith(name, autoescape=True),
            )
        )
        .order_by(OPS.c.op_id)
    )
    ids = connection.scalars(query).all()
    more = f" ... ({len(ids)} ops)" if len(ids) > MOST_IDS else ""
    return ", ".join(ids[:MOST_IDS]) + more


def op(
    connection: sa.Connection, op_id: str, rules: Sequence[Rule], team: str | None, authors: bool = False
) -> Details | None:
    """An op: its description, its places, and its results night by night, newest first; None if no run has it.

    With `team`, only nights with a failure that the team owns are listed; `authors`: whose the commits are too.
    """
    op_id = aliases(connection).get(op_id, op_id)
    row = connection.execute(sa.select(OPS).where(OPS.c.op_id == op_id)).mappings().one_or_none()
    if row is None:
        return None
    ids = [op_id, *connection.scalars(sa.select(OP_ALIAS.c.old_id).where(OP_ALIAS.c.new_id == op_id))]
    modules = connection.execute(
        sa.select(MODELS.c.model, MODULE_OPS.c.module_id, sa.func.max(MODULE_OPS.c.uses).label("uses"))
        .join(MODELS, MODELS.c.module_id == MODULE_OPS.c.module_id)
        .where(MODULE_OPS.c.op_id.in_(ids))
        .group_by(MODELS.c.model, MODULE_OPS.c.module_id)
    ).all()
    uses: Counter[str] = Counter()
    for name, _, count in modules:
        uses[name] = max(uses[name], count)
    history = _rows(connection, "night_ops", (*HISTORY, *ORDERED_BY), {"op_id": op_id}, HISTORY_NIGHTS)
    for night in history:
        night["on"] = series_name(night["backend"], night["arch"], night["series"])
        if night["kind"] == SELECTION:  # it says of no night how the op is
            night["on"] += " (selected ops)"
        night["owner"] = (
            owner(rules, [row["op_name"]], night["failed_stage"] or "", night["cause"], list(uses))
            if night["cause"]
            else ""
        )
    _say_whose_program(connection, ids, history)
    since = _since(connection, history, authors)
    for night, name in itertools.product(history, ORDERED_BY):
        del night[name]
    return {
        "what": "op",
        **{name: row[name] for name in ("op_id", "op_name", "op_kind", "signature", "op_params", "unsplittable")},
        "once": ids[1:],
        "models": dict(sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))),
        "places": _places(connection, ids, [module_id for _, module_id, _ in modules]),
        "since": since,
        "history": [night for night in history if team is None or night["owner"] == team],
        "repro": _repro(history),
    }


def _repro(history: Sequence[Details]) -> str:
    """The command that runs the op again where it goes wrong in the newest night of a series, else in the newest."""
    newest: dict[str, Details] = {}
    for night in history:
        newest.setdefault(night["on"], night)
    wrong = [night for night in newest.values() if night["cause"]]
    return next((night["repro"] for night in (*wrong, *history) if night["repro"]), "")


def _since(connection: sa.Connection, history: Sequence[Details], authors: bool) -> list[Details]:
    """Since which commits the op goes wrong, for each series in which it does so in its newest night; and whose they
    are, as far as this folder's checkout has them."""
    query = sa.select(RUNS).where(RUNS.c.run_id.in_({night["run_id"] for night in history}))
    runs = {run["run_id"]: run for run in connection.execute(query).mappings()}
    of_series: dict[str, list[Details]] = {}
    for night in history:
        if night["status"] not in UNATTEMPTED:
            # Nights of releases in one series have other backends.
            of_series.setdefault(night["series"] if night["kind"] == RELEASE else night["on"], []).append(night)
    failing = []
    for nights in of_series.values():
        wrong = list(takewhile(lambda night: night["cause"], nights))
        if not wrong:
            continue
        first = wrong[-1]
        right = nights[len(wrong)] if len(wrong) < len(nights) else None
        before = Commit() if right is None else commit_of(runs[right["run_id"]], right["backend"])
        since = CommitRange(before, commit_of(runs[first["run_id"]], first["backend"]))
        known = since.old.revision or since.new.revision
        commits = {"range": since.text, "url": since.url} if known else {"range": "", "url": ""}
        of = {"authors": since.authors(Path.cwd()) if known else ()} if authors else {}
        failing.append({"on": nights[0]["on"], "night": timed(first["label"], first["zone"]), **commits, **of})
    return failing


def _say_whose_program(connection: sa.Connection, ids: Sequence[str], history: Sequence[Details]) -> None:
    """Adds to each night whose compiler made the program that ran, what it narrowed unasked, and the release whose
    equal program it was that ran."""
    asked = (OP_TESTS.c.compiled_by, OP_TESTS.c.narrowed, OP_TESTS.c.cached_from)
    query = sa.select(OP_TESTS.c.run_id, OP_TESTS.c.backend, *asked).where(
        OP_TESTS.c.op_id.in_(ids),
        OP_TESTS.c.superseded_by == "",
        OP_TESTS.c.run_id.in_({night["run_id"] for night in history}),
    )
    programs = {(run, backend): said for run, backend, *said in connection.execute(query)}
    for night in history:
        build, narrowed, kept = programs.get((night["run_id"], night["backend"]), ("", (), ""))
        night |= {"compiled_by": build, "narrowed": list(narrowed or ())}
        night["verdict_of"] = kept.partition(TAKEN)[0] if TAKEN in (kept or "") else ""


def _places(connection: sa.Connection, ids: Sequence[str], modules: Sequence[str]) -> list[str]:
    """Places of the op in the sources, each once, as they can be followed here."""
    query = (
        sa.select(USES.c.location)
        .where(USES.c.module_id.in_(modules[:PLACES]), USES.c.op_id.in_(ids), USES.c.location != "")
        .distinct()
        .limit(PLACES)
    )
    return sorted({here(place) for place in connection.scalars(query)})


def model(connection: sa.Connection, name: str, rules: Sequence[Rule], team: str | None) -> Details:
    """A model: the stages of its ops in its newest night of each series, its blockers, and its trend."""
    from opscope.wire import show

    rows = _rows(connection, "model_readiness", ("series", *READY), {"model": name}, HISTORY_NIGHTS)
    newest = {row["series"]: row for row in reversed(rows)}
    boards = {series: board_in(connection, row["night_id"], series, row["arch"]) for series, row in newest.items()}
    names = {name: series_name(newest[name]["backend"], board, name) for name, board in boards.items()}
    trend = [show.ModelNight(**row, on=names[row["series"]]) for row in rows]
    of_series = []
    for series in dict.fromkeys(night.series for night in trend):
        nights = [night for night in trend if night.series == series]
        last = nights[0]
        since = whole_since(connection, nights, series, last.backend)
        where = {"night_id": last.night_id, "series": series, "model": name}
        blockers = _rows(connection, "model_blockers", BLOCKS, where, None)
        for entry in blockers:
            entry["owner"] = owner(rules, [entry["op_name"]], entry["stage"], entry["cluster"], [name])
        of_series.append(
            {
                "series": series,
                "name": names[series],
                "since": since and show.Since(**vars(since), text=since.text),
                "newest": last,
                "ladder": _ladder(connection, where),
                "blockers": _of_team(blockers, team),
            }
        )
    return {"what": "model", "model": name, "lanes": of_series, "trend": trend}


def _of_team(failing: Sequence[Details], team: str | None, by: tuple[str, ...] = ("op_name", "op_id")) -> list[Details]:
    """The failures that a team owns, all without one; those with most uses first."""
    own = (entry for entry in failing if team is None or entry["owner"] == team)
    return sorted(own, key=lambda entry: (-entry["uses"], *(entry[name] for name in by)))


def _ladder(connection: sa.Connection, where: Mapping[str, str]) -> list[Details]:
    rungs = _rows(connection, "night_ladder", ("stage_reached", "ops", "uses"), where, None)
    climbs = climbs_of(connection, Selected(COUNT, of_series(where["night_id"], where["series"])))
    ops, uses = Counter[str](), Counter[str]()
    for rung in rungs:
        ops[rung["stage_reached"]] += rung["ops"]
        uses[rung["stage_reached"]] += rung["uses"]
    return [{"stage": stage, "ops": ops[stage], "uses": uses[stage]} for stage in in_order(set(ops), climbs)]


def causes_beginning(connection: sa.Connection, beginning: str) -> set[str]:
    """The causes in the database that begin so."""
    beginning = beginning.lower()
    known: set[str] = set()
    for column in (OP_TESTS.c.cause, OPS.c.cause, NIGHT_CHANGES.c.cluster):
        # A range and no LIKE: for that, not every database has an index. All that follow a digit are below `g`.
        known.update(
            connection.scalars(sa.select(column).where(column >= beginning, column < f"{beginning}g").distinct())
        )
    return known


def cause(connection: sa.Connection, name: str, rules: Sequence[Rule], team: str | None) -> Details:
    """A cause: its ops in the newest night of each series that has it; of other series the last night that had it."""
    query = (
        sa.select(NIGHT_FIXES.c.series, NIGHT_SERIES.c.started, NIGHT_FIXES.c.night_id, NIGHT_FIXES.c.message)
        .join(
            NIGHT_SERIES,
            (NIGHT_SERIES.c.night_id == NIGHT_FIXES.c.night_id) & (NIGHT_SERIES.c.series == NIGHT_FIXES.c.series),
        )
        .where(NIGHT_FIXES.c.cluster == name, begun(NIGHT_SERIES.c.night_id))
        .order_by(NIGHT_SERIES.c.started.desc())
    )
    nights = connection.execute(query).all()
    series_and_start = sa.select(NIGHT_SERIES.c.series, sa.func.max(NIGHT_SERIES.c.started))
    series_and_start = series_and_start.where(begun(NIGHT_SERIES.c.night_id))
    newest = dict(connection.execute(series_and_start.group_by(NIGHT_SERIES.c.series)).all())
    lanes: list[Details] = []
    before: list[Details] = []
    for series in dict.fromkeys(night.series for night in nights):
        of_series = [night for night in nights if night.series == series]
        last = of_series[0]
        named = sa.select(NIGHTS.c.label, NIGHTS.c.zone).where(NIGHTS.c.night_id == last.night_id)
        when = connection.execute(named).one()
        name_of = names_of(connection, last.night_id).get(series, series)
        lane: Details = {"series": series, "name": name_of, "night": timed(*when)}
        if last.started != newest[series]:
            before.append(lane)
            continue
        where = {"night_id": last.night_id, "series": series, "cluster": name}
        failing = _rows(connection, "night_failures", (*BLOCKS_OF_NIGHT, "models"), where, None)
        for entry in failing:
            entry["models"] = entry["models"].split(", ")
            entry["owner"] = owner(rules, [entry["op_name"]], entry["stage"] or "", name, entry["models"])
        failing = _of_team(failing, team)
        began = sa.select(NIGHTS.c.label).where(NIGHTS.c.night_id == of_series[-1].night_id)  # in the night's own zone
        lane |= {
            "night_id": last.night_id,
            "first_seen": str(connection.scalar(began))[: len("2026-12-31")],
            "models": sorted({model for entry in failing for model in entry["models"]}),
            "failing": failing,
        }
        lanes.append(lane)
    message = next((night.message for night in nights), "") or "an op that is right, but less exact than before"
    return {"what": "cause", "cause": name, "error_message": message, "lanes": lanes, "before": before}


def run(view: RunView, rules: Sequence[Rule], team: str | None) -> Details:
    """A published run: counts by status, and the ops that go wrong."""
    bad = [
        {
            **{name: getattr(op, name) for name in ("op_id", "op_name", "types", "status", "error", "uses", "repro")},
            "stage": op.failed_stage,
            "cluster": op.cause,
            "known": op.expected,
            "models": sorted(op.uses_of),
            "owner": owner(rules, [op.op_name], op.failed_stage, op.cause, list(op.uses_of)),
        }
        for op in view.ops.values()
        if op.bad
    ]
    return {
        "what": "run",
        **{name: getattr(view, name) for name in ("run_id", "backend", "arch", "outcome")},
        "on": view.name,
        "started": view.started.isoformat(),
        "models": list(view.models),
        "statuses": dict(sorted(Counter(op.status for op in view.ops.values()).items())),
        "failing": _of_team(bad, team, ("op_id",)),
    }


def _rows(
    connection: sa.Connection, view: str, names: Sequence[str], where: Mapping[str, str], limit: int | None
) -> list[Details]:
    """Rows of a view, the newest night first; with a `limit`, those of nights that may be the newest."""
    table = sa.table(view, *(sa.column(name) for name in {*names, *where, "started", "night_id"}))
    renamed = JSON_NAMES.get(view, {})
    query = sa.select(*(table.c[name].label(renamed.get(name, name)) for name in names))
    for name, value in where.items():
        query = query.where(table.c[name] == value)
    if limit is not None:
        query = query.where(begun(table.c.night_id))
    rows = [
        plain(dict(row)) for row in connection.execute(query.order_by(table.c.started.desc()).limit(limit)).mappings()
    ]
    return with_zones(connection, rows) if "night_id" in names else rows
