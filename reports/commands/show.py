"""What `opscope show` prints of an op, of a model, or of a run that only the database has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from opscope.base import damage
from opscope.base.document.groups import by_cause, short
from opscope.base.document.in_terminal import show_causes
from opscope.base.document.nodes import Cause, Op, grouped
from opscope.base.page import Page, percent
from opscope.base.statuses import RIGHT, TERMINAL
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
        PAGES[details.what](details, Page())


def _op(details: wire.Op, page: Page) -> None:
    page.prose(f"{details.op_name} [{details.op_id}] {details.signature}", "bold")
    _standing(details, page)
    for name, value in details.op_params.items():
        page.prose(f"{name} = {value}", "dim", indent=2)
    if details.once:
        page.prose(f"former ids: {', '.join(details.once)}", "dim")
    models = list(details.models.items())
    shown_models = ", ".join(f"{model} ({uses})" for model, uses in models[:SHOWN])
    more = f" and {len(models) - SHOWN} more" if len(models) > SHOWN else ""
    page.prose(f"is in {counted(len(models), 'model')}: {shown_models}{more}")
    for place in details.places:
        page.line(place, "dim", indent=2)
    head, labels = night_column([(night.label, night.zone) for night in details.history])
    page.table(
        [
            (head, ""),
            ("on", ""),
            ("status", ""),
            ("at", ""),
            ("z", "right"),
            ("PCC", "right"),
            ("cycles", "right"),
            ("owner", ""),
            ("compile ms", "right"),
        ],
        [
            (nights[0] + (f", {len(nights)} nights" if len(nights) > 1 else ""), *cells, compile_ms)
            for nights, cells, compile_ms in _stretches(details.history, labels)
        ],
        spare=("compile ms", "cycles", "PCC", "owner", "at"),
        fillable=("at", "z", "PCC", "cycles", "compile ms", "owner"),
    )
    failed = [night for night in details.history if night.error_message]
    for error in by_cause(failed, lambda night: night.error_message, lambda _: 1):
        others = len(error.failures) - 1
        more = f" and {others} other{'s' if others > 1 else ''}" if others else ""
        cause = f", cause {short(error.first.cause)}" if error.first.cause else ""
        when = timed(error.first.label, error.first.zone)
        page.prose(f"{when} on {error.first.on}{more}{cause}: {error.first.error_message}")
        _note(details.notes, error.first.cause, page)
    _narrowed(details, page)
    _explained(details, page)


def _standing(details: wire.Op, page: Page) -> None:
    """How the op stands: wrong where and since when, right where, and the command that runs it again."""
    newest = {night.on: night for night in reversed(details.history)}
    for since in details.since:
        commits = "  ".join(filter(None, (since.range, since.url)))
        error = newest[since.on].error_message or newest[since.on].status.replace("_", " ")
        when = f"since {since.night}{f', commits {commits}' if commits else ''}"
        page.prose(f"wrong on {since.on} {when}: {error}", TERMINAL["bad"])
    words: dict[str, list[str]] = {}
    for on in sorted(newest.keys() - {since.on for since in details.since}):
        status = newest[on].status
        words.setdefault("right" if status in RIGHT else status.replace("_", " "), []).append(on)
    for word, on in words.items():
        page.prose(f"{word} on {', '.join(on)}", TERMINAL["good"] if word == "right" else "")
    if details.unsplittable:
        page.prose(f"cannot be split from its model: {details.unsplittable}", TERMINAL["bad"])
    if details.repro:
        page.line(details.repro)


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


def _narrowed(details: wire.Op, page: Page) -> None:
    """Whose program ran where another than the backend's name says made it, and what that narrowed, newest first."""
    programs = ((night.narrowed, night.compiled_by, night.backend, night.verdict_of) for night in details.history)
    for narrowed, build, backend, taken in dict.fromkeys(programs):
        if build:
            page.prose(f"{backend}: compiled by {build}")
        if taken:
            page.prose(f"{backend}: its program equals that of {taken}, whose verdict it takes")
        if narrowed:
            page.prose(f"{backend}: narrowed: {', '.join(narrowed)}")


def _explained(details: wire.Op, page: Page) -> None:
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
            page.line()
            page.line(f"why it was wrong on {known.backend}, {timed(night.label, night.zone)}", "bold")
            for pieces in explanation_text.lines(known):
                page.pieces(pieces, indent=2)
            return


def _model(details: wire.Model, page: Page) -> None:
    page.line(details.model, "bold")
    for series in details.lanes:
        newest = series.newest
        page.line()
        page.line(f"{series.name}, {timed(newest.label, newest.zone)}", "bold")
        if newest.outcome != "ran":
            page.prose(f"{newest.outcome} {newest.reason}")
            continue
        page.prose(
            f"{newest.right_ops} of {newest.ops} ops right ({percent(newest.readiness)}), "
            f"{newest.bad_ops} wrong, {newest.not_attempted} not attempted"
        )
        if series.since is not None:
            page.prose(series.since.text)
        page.table(
            [("furthest stage", ""), ("ops", "right"), ("uses", "right")],
            [(rung.stage, rung.ops, rung.uses) for rung in series.ladder],
        )
        _causes(series.blockers, page, ("label", "status", "stage"), "message", "signature", details.notes)
        if len(series.blockers) > SHOWN:
            page.line(f"and {len(series.blockers) - SHOWN} more; see opscope readiness {details.model}", indent=2)
    page.line()
    head, labels = night_column([(entry.label, entry.zone) for entry in details.trend])
    page.table(
        [(head, ""), ("on", ""), ("outcome", ""), ("ops", "right"), ("right", "right"), ("wrong", "right")],
        [
            (
                label,
                entry.on,
                entry.outcome,
                entry.ops,
                entry.right_ops,
                entry.bad_ops,
            )
            for label, entry in zip(labels, details.trend, strict=True)
        ],
    )


def _run(details: wire.PublishedRun, page: Page) -> None:
    page.line(f"{details.run_id}: {details.on}, {details.outcome}", "bold")
    page.prose(", ".join(f"{count} {status}" for status, count in details.statuses.items()))
    _causes(details.failing, page, ("status", "stage"), "error", "types", details.notes)
    if len(details.failing) > SHOWN:
        page.line(f"and {len(details.failing) - SHOWN} more; see --json", indent=2)


def _note(notes: Sequence[wire.Note], cause: str | None, page: Page) -> None:
    """Prints the note of a cause, if it has one."""
    for note in notes:
        if note.cause == cause:
            page.prose(f"note: {note.line(f'{datetime.now(UTC):%Y-%m-%d}')}", "bold", indent=4)


def _causes(
    failures: Sequence[Failing], page: Page, same: tuple[str, ...], message: str, types: str, notes: Sequence[wire.Note]
) -> None:
    """Prints each cause once with its ops below; `same`: columns that are equal for all ops of a cause."""
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

    show_causes(grouped(failures, key, cause_of, op_of, SHOWN), page)


def _cause(details: wire.Cause, page: Page) -> None:
    page.prose(f"cause {details.cause}: {details.error_message}", "bold")
    _note(details.notes, details.cause, page)
    for lane in details.lanes:
        page.line()
        page.line(f"{lane.name}, {lane.night}", "bold")
        ops = "1 op" if len(lane.failing) == 1 else f"{len(lane.failing)} ops"
        page.prose(f"{ops} in {', '.join(lane.models) or 'no model'}; first seen {lane.first_seen}")
        _causes(lane.failing, page, ("label", "status", "stage"), "message", "signature", [])
    for lane in details.before:
        page.prose(f"{lane.name}: last in {lane.night}", "dim")


PAGES = {"op": _op, "model": _model, "run": _run, "cause": _cause}
