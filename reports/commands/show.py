"""What there is to say of an op, of a model, or of a run that only the database has: `opscope show`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from opscope.base import damage
from opscope.base.document import in_terminal
from opscope.base.document.groups import by_cause, short
from opscope.base.document.nodes import Cause, Causes, Column, Drawn, Node, Op, Table, Words, causes_within
from opscope.base.page import Page, percent
from opscope.base.statuses import RIGHT
from opscope.base.visible_text import counted
from opscope.harness.record import explanation, explanation_text, run_folders
from opscope.reports.compare.night_times import night_column, timed
from opscope.reports.compare.op_history import find

if TYPE_CHECKING:
    from opscope.wire import show as wire

    Failing = wire.FailingOfRun | wire.Blocker | wire.FailingOfCause

SHOWN = 20
"""Rows per list."""


def show(name: str, url: str | None, team: str | None, owners_file: Path | None, as_json: bool) -> None:
    """Prints what the database at `url` (default: this folder's) knows of `name`. Raises InputError for nothing."""
    from opscope.reports.compare.run_selection import open_runs
    from opscope.reports.database.owners import rules_here

    with open_runs(url) as runs:
        connection = runs.database(name, "WHAT")
        details = find(connection, name, rules_here(connection, owners_file, team=team), team)
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(details)
    else:
        in_terminal.show(PAGES[details.what](details), Page(), sys.maxsize, sys.maxsize)


def _op(details: wire.Op) -> Iterator[Node]:
    yield Words(f"{details.op_name} [{details.op_id}] {details.signature}", "strong")
    yield from _standing(details)
    yield from (Words(f"{name} = {value}", "note", level=1) for name, value in details.op_params.items())
    if details.once:
        yield Words(f"former ids: {', '.join(details.once)}", "note")
    models = list(details.models.items())
    shown_models = ", ".join(f"{model} ({uses})" for model, uses in models[:SHOWN])
    more = f" and {len(models) - SHOWN} more" if len(models) > SHOWN else ""
    yield Words(f"is in {counted(len(models), 'model')}: {shown_models}{more}")
    yield from (Words(place, "note", whole=True, level=1) for place in details.places)
    head, labels = night_column([(night.label, night.zone) for night in details.history])
    yield Table(
        [
            Column(head),
            Column("on"),
            Column("status"),
            Column("at", fillable=True, spare=True),
            Column("z", "right", fillable=True),
            Column("PCC", "right", fillable=True, spare=True),
            Column("cycles", "right", fillable=True, spare=True),
            Column("owner", fillable=True, spare=True),
            Column("compile ms", "right", fillable=True, spare=True),
        ],
        [
            (nights[0] + (f", {len(nights)} nights" if len(nights) > 1 else ""), *cells, compile_ms)
            for nights, cells, compile_ms in _stretches(details.history, labels)
        ],
    )
    failed = [night for night in details.history if night.error_message]
    for error in by_cause(failed, lambda night: night.error_message, lambda _: 1):
        more = f" and {counted(error.ops - 1, 'other')}" if error.ops > 1 else ""
        cause = f", cause {short(error.first.cause)}" if error.first.cause else ""
        when = timed(error.first.label, error.first.zone)
        yield Words(f"{when} on {error.first.on}{more}{cause}: {error.first.error_message}")
        yield from _note(details.notes, error.first.cause)
    yield from _narrowed(details)
    yield from _explained(details)


def _standing(details: wire.Op) -> Iterator[Words]:
    """How the op stands: wrong where and since when, right where, and the command that runs it again."""
    newest = {night.on: night for night in reversed(details.history)}
    for since in details.since:
        commits = "  ".join(filter(None, (since.range, since.url)))
        error = newest[since.on].error_message or newest[since.on].status.replace("_", " ")
        when = f"since {since.night}{f', commits {commits}' if commits else ''}"
        yield Words(f"wrong on {since.on} {when}: {error}", "bad")
    words: dict[str, list[str]] = {}
    for on in sorted(newest.keys() - {since.on for since in details.since}):
        status = newest[on].status
        words.setdefault("right" if status in RIGHT else status.replace("_", " "), []).append(on)
    yield from (Words(f"{word} on {', '.join(on)}", "good" * (word == "right")) for word, on in words.items())
    if details.unsplittable:
        yield Words(f"cannot be split from its model: {details.unsplittable}", "bad")
    if details.repro:
        yield Words(details.repro, whole=True)


def _stretches(
    history: Sequence[wire.OpNight], labels: list[str]
) -> Iterator[tuple[list[str], tuple[object, ...], object]]:
    """Of one series after another each stretch of nights that say the same: their labels, the newest first, the cells
    of their row, and how long the newest compiled."""

    def cells(one: tuple[wire.OpNight, str]) -> tuple[object, ...]:
        night = one[0]
        status = night.status + (" (flaky)" if night.flaky else "") + (" (known)" if night.expected else "")
        return night.on, status, night.failed_stage, night.z_max, night.pcc, night.cycles, night.owner

    order = list(dict.fromkeys(night.on for night in history))
    by_series = sorted(zip(history, labels, strict=True), key=lambda one: order.index(one[0].on))
    for same, stretch in groupby(by_series, cells):
        nights = list(stretch)
        yield [label for _, label in nights], same, nights[0][0].compile_ms


def _narrowed(details: wire.Op) -> Iterator[Words]:
    """Whose program ran where another than the backend's name says made it, and what that narrowed, newest first."""
    programs = ((night.narrowed, night.compiled_by, night.backend, night.verdict_of) for night in details.history)
    for narrowed, build, backend, taken in dict.fromkeys(programs):
        if build:
            yield Words(f"{backend}: compiled by {build}")
        if taken:
            yield Words(f"{backend}: its program equals that of {taken}, whose verdict it takes")
        if narrowed:
            yield Words(f"{backend}: narrowed: {', '.join(narrowed)}")


def _explained(details: wire.Op) -> Iterator[Drawn]:
    """Why the newest wrong result was wrong whose run folder is still in this folder."""
    for night in details.history:
        artifact = PurePosixPath(night.artifact or "")
        if artifact.name != explanation.TEXT or artifact.is_absolute() or ".." in artifact.parts:
            continue
        try:
            known = explanation.read(run_folders.runs_root() / night.run_id, artifact.parent)
        except damage.Damaged as error:
            damage.say(f"{error.where}: {error.state}")
            continue
        if known is not None:
            title = f"why it was wrong on {known.backend}, {timed(night.label, night.zone)}"
            yield Drawn(title, list(explanation_text.lines(known)))
            return


def _model(details: wire.Model) -> Iterator[Node]:
    yield Words(details.model, "strong", whole=True)
    for series in details.lanes:
        newest = series.newest
        yield Words("")
        yield Words(f"{series.name}, {timed(newest.label, newest.zone)}", "strong", whole=True)
        if newest.outcome != "ran":
            yield Words(f"{newest.outcome} {newest.reason}")
            continue
        yield Words(
            f"{newest.right_ops} of {newest.ops} ops right ({percent(newest.readiness)}), "
            f"{newest.bad_ops} wrong, {newest.not_attempted} not attempted"
        )
        if series.since is not None:
            yield Words(series.since.text)
        rungs = [(rung.stage, rung.ops, rung.uses) for rung in series.ladder]
        yield Table([Column("furthest stage"), Column("ops", "right"), Column("uses", "right")], rungs)
        see = f"opscope readiness {details.model}"
        yield _causes(series.blockers, ("label", "status", "stage"), "message", "signature", details.notes, see)
    yield Words("")
    head, labels = night_column([(entry.label, entry.zone) for entry in details.trend])
    columns = [Column(head), Column("on"), Column("outcome")]
    columns += [Column(name, "right") for name in ("ops", "right", "wrong")]
    trend = [
        (label, entry.on, entry.outcome, entry.ops, entry.right_ops, entry.bad_ops)
        for label, entry in zip(labels, details.trend, strict=True)
    ]
    yield Table(columns, trend)


def _run(details: wire.PublishedRun) -> Iterator[Node]:
    yield Words(f"{details.run_id}: {details.on}, {details.outcome}", "strong", whole=True)
    yield Words(", ".join(f"{count} {status}" for status, count in details.statuses.items()))
    yield _causes(details.failing, ("status", "stage"), "error", "types", details.notes, "--json")


def _note(notes: Sequence[wire.Note], cause: str | None) -> Iterator[Words]:
    """The note of a cause, if it has one."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    yield from (Words(f"note: {note.line(day)}", "strong", level=2) for note in notes if note.cause == cause)


def _causes(
    failures: Sequence[Failing],
    same: tuple[str, ...],
    message: str,
    types: str,
    notes: Sequence[wire.Note] = (),
    see: str = "",
) -> Causes:
    """Each cause once with its ops below; `same`: columns that are equal for all ops of a cause."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    noted = {note.cause: note.line(day) for note in notes}

    def key(entry: Failing) -> tuple[object, ...]:
        return tuple(getattr(entry, name, False) for name in (*same, "known", "owner", "cluster", "flaky"))

    def cause_of(entry: Failing) -> Cause:
        *before, stage = (str(getattr(entry, name) or "") for name in same)
        what, note = "; ".join(before) + (f" at {stage}" if stage else ""), noted.get(entry.cluster, "")
        flaky = bool(getattr(entry, "flaky", False))
        return Cause(
            entry.cluster, what, getattr(entry, message) or "", stage, entry.owner, entry.known, note, flaky=flaky
        )

    def op_of(entry: Failing) -> Op:
        where, error = counted(entry.uses, "use"), getattr(entry, message) or ""
        return Op(entry.op_id, entry.op_name, getattr(entry, types), entry.uses, where, error, repro=entry.repro)

    return causes_within(failures, key, cause_of, op_of, SHOWN, Causes("", see=see))


def _cause(details: wire.Cause) -> Iterator[Node]:
    yield Words(f"cause {details.cause}: {details.error_message}", "strong")
    yield from _note(details.notes, details.cause)
    for lane in details.lanes:
        yield Words("")
        yield Words(f"{lane.name}, {lane.night}", "strong", whole=True)
        models = ", ".join(lane.models) or "no model"
        yield Words(f"{counted(len(lane.failing), 'op')} in {models}; first seen {lane.first_seen}")
        yield _causes(lane.failing, ("label", "status", "stage"), "message", "signature", see="--json")
    yield from (Words(f"{lane.name}: last in {lane.night}", "note") for lane in details.before)


PAGES = {"op": _op, "model": _model, "run": _run, "cause": _cause}
