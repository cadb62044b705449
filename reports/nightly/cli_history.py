"""`opscope history`: a night of each release of a compiler, and the first release in which each op fails."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opscope.base.visible_text import counted
from opscope.harness.settings.program_options import program_options, read_options

if TYPE_CHECKING:
    from opscope.reports.compare.outcomes import Outcome
    from opscope.reports.nightly.history import First, History, Line, Night, Release
    from opscope.reports.nightly.progress import Display


@click.command(short_help="Run a night of each release of a compiler.")
@click.option(
    "--backend",
    "backends",
    required=True,
    metavar="NAME@A..B,...",
    help="Releases of backends: tt@0.1.1..0.1.3, tt@0.1.2.. or tt for all that pip knows.",
)
@click.option("--model", "models", multiple=True, required=True, metavar="NAME", help="A model, as for pytest --model.")
@click.option(
    "--since", type=click.DateTime(["%Y", "%Y-%m", "%Y-%m-%d"]), help="Only releases that were made since then."
)
@click.option("--arch", default="n150", show_default=True, metavar="BOARD", help="The board.")
@click.option("--until", metavar="STAGE", help="The last stage, as for pytest --until.")
@click.option("--workflow", metavar="NAME", help="What is run, such as `full`, as for pytest --workflow.")
@click.option("-n", "workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes of a night.")
@click.option("--bisect", is_flag=True, help="Run only the releases that tell since which one each failing op fails.")
@click.option("--database", "--db", "url", metavar="URL", help="Results database; default: .opscope/opscope.sqlite.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@program_options
def history(
    backends: str,
    models: tuple[str, ...],
    since: datetime | None,
    arch: str,
    until: str | None,
    workflow: str | None,
    workers: int,
    bisect: bool,
    url: str | None,
    as_json: bool,
    **words: str | None,
) -> None:
    """Run a night of each release of a compiler, publish it, and compare each release with the one before it.

    A release is fetched once and not installed. Its night is one of the past: it is never the newest, and nothing
    alarms for it. A release that is published already is not run again. `opscope diff tt@0.1.2 tt@0.1.3` says what
    two of them do differently. Exit code 1 if no release could be run, 2 for bad input.
    """
    from opscope.harness.settings.settings import BY_NAME
    from opscope.reports.database.database import usable_url
    from opscope.reports.database.files import default_url
    from opscope.reports.nightly import history as nights_of_releases
    from opscope.reports.nightly import running
    from opscope.reports.nightly.progress import Display

    target = url or default_url(Path.cwd())
    usable_url(target, "--database")
    releases = nights_of_releases.asked_releases(backends, None if since is None else since.replace(tzinfo=UTC))
    asked_for = {"until": until, "workflow": workflow}
    options = {name: BY_NAME[name].read(f"--{name}", word) for name, word in asked_for.items() if word is not None}
    options |= read_options(words)
    asked = nights_of_releases.History(models, arch, workers, options, target, Path.cwd(), tuple(releases))
    display = Display(len(releases), aside=as_json)
    with running.ended_by_signal("interrupted; run the same command again to continue this history"), display:
        ran, firsts = _run(asked, display, bisect=bisect)
    ran.sort(key=lambda night: releases.index(night.release))
    there = [night for night in ran if not night.problem]
    lines = asked.lines(there) if there else []
    problems = {night.release.name: night.problem for night in ran if night.problem}
    if as_json:
        from opscope.wire import history as wire
        from opscope.wire.answer import print_answer

        found = (
            wire.First(op_id=each.op.op_id, op_name=each.op.op_name, right=each.right, failing=each.failing)
            for each in firsts
        )
        print_answer(wire.History(releases=tuple(lines), problems=problems, first_failing=tuple(found)))
    else:
        _show(lines, problems)
        if bisect:
            _show_firsts(firsts, len(there), len(releases))
    if not there:
        raise SystemExit(1)


def _run(asked: History, display: Display, *, bisect: bool) -> tuple[list[Night], list[First]]:
    """Runs the nights of all releases; with `bisect` of those alone that tell since which one each failing op fails."""
    from opscope.reports.database.reading import read_database
    from opscope.reports.nightly import history as nights_of_releases

    ran: list[Night] = []

    def one(release: Release) -> Night:
        ran.append(night := asked.run(release, display.watch, display.ended))
        return night

    def failing(release: Release) -> dict[str, Outcome] | None:
        night = one(release)
        if night.problem:
            return None
        with read_database(asked.url, "--database") as connection:
            return {op.op_id: op for op in asked.view(connection, night.night_id).ops.values() if op.bad}

    firsts: list[First] = []
    if bisect:
        for backend in dict.fromkeys(release.backend for release in asked.releases):
            own = [release for release in asked.releases if release.backend == backend]
            firsts += nights_of_releases.bisected(own, failing)
    else:
        for release in asked.releases:
            one(release)
    return ran, firsts


def _show(lines: list[Line], problems: dict[str, str]) -> None:
    """Prints a row for each release."""
    from opscope.base.page import Page

    page = Page()
    statuses = sorted({status for line in lines for status in line.statuses})
    labels = sorted({label for line in lines for label in line.changes})
    columns = [("release", ""), ("made", ""), *((status, "right") for status in statuses)]
    columns += [*((label, "right") for label in labels), ("lower differently", "right")]
    rows = [
        (
            line.release,
            line.made,
            *(line.statuses.get(status, 0) for status in statuses),
            *(line.changes.get(label, "") for label in labels),
            "" if line.lower_differently is None else line.lower_differently,
        )
        for line in lines
    ]
    if rows:
        page.table(columns, rows, fillable=tuple(name for name, _ in columns))
    for release, problem in problems.items():
        page.prose(f"{release}: not run: {problem}", "yellow")
    for line, earlier in zip(lines[1:], lines, strict=False):
        if line.changes or line.lower_differently:
            page.line(f"opscope diff {earlier.night_id} {line.night_id}", "dim")


def _show_firsts(firsts: list[First], ran: int, releases: int) -> None:
    """Prints since which release each op fails."""
    from opscope.base.page import Page

    page = Page()
    page.line(f"{counted(len(firsts), 'failing op')}, {ran} of {counted(releases, 'release')} needed", "bold")
    for first in firsts:
        since = f"in every one from {first.failing} on"
        if first.right:
            since = f"since {first.failing}, right in {first.right}"
        page.prose(f"{first.op.op_name} [{first.op.op_id}] {first.op.types}: {since}", indent=2)
