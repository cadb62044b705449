"""Renders the page of a night or a published run from the database alone: one report.html with all its series.

A series is a backend on a board, with its types and formats. Results of different series are shown side by side and
never added; each is compared with its own previous night.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from opscope.base.document.nodes import Table
from opscope.base.labels import COMPLETE, PARTIAL
from opscope.base.visible_text import counted
from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.reports.compare.diff import compare
from opscope.reports.compare.first_sentence import SERIES, date_of, first_sentence, head_of, of_view
from opscope.reports.compare.history import slower_between_nights
from opscope.reports.compare.night_diff import series_missing
from opscope.reports.compare.night_views import COUNT, newest_by_series, night_before, night_view
from opscope.reports.compare.outcomes import RunView
from opscope.reports.compare.owned import Owned
from opscope.reports.compare.readiness import views_of
from opscope.reports.compare.unblock import plan
from opscope.reports.database.rows import series_by_backend
from opscope.reports.database.schema import DROPPED, NIGHTS, OP_TESTS, OPS, RUNS
from opscope.reports.database.schema_nights import LEDGER, of_series
from opscope.reports.database.series_names import names_of
from opscope.reports.pages import night_causes, page_rows, page_tables
from opscope.reports.pages.html import filled, frame
from opscope.reports.pages.sections import shown
from opscope.reports.records import quick_records
from opscope.reports.records.demo_data import SAID


@dataclass(frozen=True)
class NightSeries:
    """One series of a night."""

    name: str
    """Empty if the night has only one series."""
    row: Any
    """Its row of `night_series`."""
    view: RunView
    tests: Sequence[OpTest]


def render_night(connection: sa.Connection, night_ids: Sequence[str], runs: Path, out: Path, owned: Owned) -> str:
    """Renders the page of nights of one date, or of a single run, as HTML.

    `night_ids`: the newest first; each series is shown in the newest that has it. `runs`: the folder of the run
    folders, and `out`: the place of the page, for links to files of failing ops; `owned`: whose failures are listed.
    """
    nights_of_series = newest_by_series(connection, night_ids)
    all_series = list(_series_of(connection, nights_of_series))
    shown_nights = sa.select(NIGHTS).where(NIGHTS.c.night_id.in_(nights_of_series.values()))
    nights = connection.execute(shown_nights.order_by(NIGHTS.c.started.desc())).mappings().all()
    night = nights[0]
    tests = [test for series in all_series for test in series.tests]
    rows = page_rows.op_rows(tests, owned)
    for row, test in zip(rows, tests, strict=True):
        row["artifact"] = (
            quote(os.fsencode(night_causes.link(runs / test.run_id / test.artifact, out))) if test.artifact else ""
        )
    models = sorted({model for series in all_series for model in series.view.models})
    ledgers = [_ledger(series) for series in all_series]
    plans = [(series.name, _plan(series)) for series in all_series]
    diffs = list(_changes(connection, all_series))
    demo = [SAID] if any(each["demo"] for each in nights) else []
    facts = [of_view(each.view, dict(diffs).get(each.name), each.row["missing"]) for each in all_series]
    quiet = {
        (series.name or series.view.backend, op_id)
        for series, each in zip(all_series, facts, strict=True)
        for op_id in each.quiet
    }
    missing = series_missing(connection, {each.view.run_id for each in all_series})
    head = head_of(connection, [each.view for each in all_series])
    context = {
        **frame(rows, shown(diffs, plans, owned), owned),
        "night": night_causes.of_night(connection, night, runs, out, owned),
        "sentence": first_sentence(head, [*facts, *missing], owned.rules, owned.team),
        "started": night["started"].isoformat(),
        "title": _title(nights),
        "on": ", ".join(series.name or series.view.name for series in all_series),
        "warnings": [*map(_warning, (each for each in all_series if each.row["status"] != COMPLETE)), *demo],
        "since": "Since the previous night",
        "chips": _chips(nights, all_series, models),
        "tiles": page_rows.tiles(tests, models, rows, quiet),
        "ledger_line": "; ".join(line for line, _ in ledgers),
        "adds_up": all(right for _, right in ledgers),
        "splits": page_tables.splits(tests) if len(all_series) > 1 else None,
        "whole": [
            page_tables.whole_of_night(
                connection,
                each["night_id"],
                {series.view.series: series.name for series in all_series if series.view.run_id == each["night_id"]},
                owned,
            )
            for each in nights
        ],
        "unsplittable": _unsplittable(all_series, owned),
        "origin": _origin(connection, nights),
    }
    return filled(context)


def _title(nights: Sequence[sa.RowMapping]) -> str:
    """The name of the night, the date of several of one, or of what is no night its id."""
    night = nights[0]
    if night["kind"] != "night":
        return str(night["night_id"])
    return str(night["label"]) if len(nights) == 1 else date_of(night["label"])


def _unsplittable(all_series: Iterable[NightSeries], owned: Owned) -> Table:
    """Table of the ops that could not be split, each once."""
    unsplit = {op.op_id: op for series in all_series for op in series.view.ops.values() if op.status == "unsplittable"}
    return page_tables.unsplittable(
        (op.op_id, op.op_name, op.error, op.uses)
        for op in unsplit.values()
        if owned.lists(owned.owner_of_unsplittable(op.op_name, op.uses_of))
    )


def _warning(series: NightSeries) -> str:
    """Of a series that is not complete."""
    if series.row["status"] == PARTIAL:
        lacks = f"is partial: {series.row['missing']} missing. Ops that did not run are not gone."
        return f"{series.name or 'This night'} {lacks}"
    return f"{series.name or 'The backend'} fails every op with one text: it may not work here."


def _series_of(connection: sa.Connection, nights_of_series: Mapping[str, str]) -> Iterator[NightSeries]:
    rows = {}
    for full_name, night_id in sorted(nights_of_series.items()):
        row = connection.execute(SERIES, of_series(night_id, full_name)).mappings().one_or_none()
        if row is None:
            got = f"`{night_id}`, a run of selected ops, which nights leave out"
            raise InputError("NIGHT", "a night or a run of whole models", got, "its run folder")
        rows[full_name] = row
    views = {full_name: night_view(connection, nights_of_series[full_name], full_name) for full_name in rows}
    words = [set(view.name.split()) for view in views.values()]
    common = set.intersection(*words) if words else set()
    for full_name, view in views.items():
        own = " ".join(word for word in view.name.split() if word not in common) or view.name
        name = own if len(views) > 1 else ""
        yield NightSeries(name, rows[full_name], view, _tests(connection, view, name))


def _tests(connection: sa.Connection, view: RunView, shown_as: str) -> list[OpTest]:
    """The unchanged records that count; if the night has several series, `shown_as` replaces the backend."""
    names = [name for name in OpTest.model_fields if name not in DROPPED]
    query = sa.select(*(OP_TESTS.c[name] for name in names), OPS.c.op_params)
    query = query.join(OPS, OPS.c.op_id == OP_TESTS.c.op_id)
    query = query.where(COUNT).order_by(OP_TESTS.c.op_id)
    tests = []
    for row in connection.execute(query, of_series(view.run_id, view.series)).mappings():
        op = view.ops.get(row["op_id"])
        uses = op.uses_of if op is not None else {}
        of_uses = {"models": tuple(uses), "uses": sum(uses.values()) or row["uses"]}
        tests.append(quick_records.op_test({**row, **of_uses, "backend": shown_as or row["backend"]}))
    return tests


def _changes(connection: sa.Connection, all_series: Sequence[NightSeries]) -> Iterator[tuple[str, Any]]:
    for series in all_series:
        if series.row["previous_night"]:
            before = night_before(connection, series.row["previous_night"], series.view.series)
            yield series.name, compare(before, series.view, slower_between_nights(connection, before, series.view))


def _plan(series: NightSeries) -> Any:
    return plan(views_of(series.view))


def _ledger(series: NightSeries) -> tuple[str, bool]:
    """The totals of models and ops in a series as text, and whether they add up."""
    asked, *parts = (series.row[name] for name in LEDGER)
    models = " + ".join(
        f"{count} {name.removeprefix('models_').replace('_', ' ')}"
        for name, count in zip(LEDGER[1:], parts, strict=True)
        if count
    )
    statuses = Counter(op.status for op in series.view.ops.values())
    ops = " + ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    right = asked == sum(parts) and statuses.total() == len(series.view.ops)
    prefix = f"{series.name}: " if series.name else ""
    unique = counted(len(series.view.ops), "unique op")
    return f"{prefix}{counted(asked, 'model')} = {models or 0}; {unique} = {ops or 0}", right


def _chips(nights: Sequence[Any], all_series: Sequence[NightSeries], models: Sequence[str]) -> list[tuple[str, str]]:
    states = {series.row["status"] for series in all_series}
    pairs = [
        ("night" if nights[0]["kind"] == "night" else "run", ", ".join(night["night_id"] for night in nights)),
        ("started", ", ".join(sorted({f"{night['started']:%Y-%m-%d %H:%M} UTC" for night in nights}))),
        ("status", ", ".join(sorted(states))),
        ("models", str(len(models))),
        ("on", ", ".join(sorted({series.view.name for series in all_series}))),
        *(("compiler", name) for name in sorted({series.row["compiler"] for series in all_series})),
        ("jaxlib", ", ".join(sorted({series.row["jaxlib"] for series in all_series} - {""}))),
    ]
    return [(label, value) for label, value in pairs if value]


def _origin(connection: sa.Connection, nights: Sequence[Any]) -> list[tuple[str, str]]:
    ids = [night["night_id"] for night in nights]
    runs = connection.execute(
        sa.select(RUNS).where(RUNS.c.night_id.in_(ids)).order_by(RUNS.c.started, RUNS.c.run_id)
    ).mappings()
    names = {series: name for night_id in ids for series, name in names_of(connection, night_id).items()}
    return [
        (
            run["run_id"],
            f"{run['outcome']}, "
            + ", ".join(
                names[series] for series in series_by_backend(run["backend"], run["arch"], run["options"]).values()
            )
            + (f", shard {run['shard']}" if run["shard"] else "")
            + f", {run['host']}, {run['backend_revision'][:12]}",
        )
        for run in runs
    ]
