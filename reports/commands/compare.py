"""The commands that compare runs and rank fixes: `opscope diff`, `unblock`, `readiness`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from opscope.base.path_option import path_option
from opscope.harness.record.errors import InputError

_DB = click.option(
    "--db", "url", default=None, metavar="URL", help="Results database; default: .opscope/opscope.sqlite."
)


def DB(command: Callable[..., None]) -> Callable[..., None]:  # noqa: N802 - a decorator beside those below
    """The option of a command that reads the database; the command says at its end if that holds demo data."""

    @functools.wraps(command)
    def marked(*args: Any, **options: Any) -> None:
        from opscope.reports.commands.demo_mark import say_if_demo

        printed = True
        try:
            command(*args, **options)
        except InputError:  # and a database that says nothing is not waited for once more
            printed = False
            raise
        finally:
            if printed:
                say_if_demo(options["url"])

    return _DB(marked)


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
LIMIT = click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="Rows per table.")


OWNER = click.option("--owner", "team", metavar="TEAM", help="Only failures that TEAM owns (ci/owners.yaml).")
OWNERS = path_option(
    "--owners", "owners_file", help="Rules of owners; default: ci/owners.yaml, or else the rules in the database."
)


@click.command(short_help="Compare two runs or two nights, op by op.")
@click.argument("run_a", required=False)
@click.argument("run_b", required=False)
@DB
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 1 if an op is NEW, REASON-CHANGED or PCC-DROP, and neither known (a limitation), flaky nor "
    "acknowledged (a note).",
)
@click.option("--cause", "cause_id", metavar="ID", help="Only the cause whose id begins so, with all its ops.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Compare the newest night of each series with its last complete night before DATE.",
)
@OWNER
@OWNERS
@LIMIT
@JSON
def diff(
    run_a: str | None,
    run_b: str | None,
    url: str | None,
    check: bool,
    since: datetime | None,
    cause_id: str | None,
    team: str | None,
    owners_file: Path | None,
    limit: int,
    as_json: bool,
) -> None:
    """Compare two runs or two nights, op by op.

    Each op gets one label: NEW, FIXED, PERSISTING, REASON-CHANGED, PCC-DROP, VARYING, BATCH-DEPENDENT, SLOWER,
    VANISHED, NEVER-RUN. RUN_A and RUN_B are run folders, ids in the database, the ids or dates of nights, or two
    backends that runs have, such as tt@0.1.2 and tt@0.1.3: as `opscope history` has recorded them, else in the newest
    run with both. Without them, compare the two newest comparable runs (same backend, board and options, a model in
    common; no later run of selected ops). With one, compare it with the newest comparable run or night before it.
    Nights are compared series by series; a date stands for all nights of that day. --since DATE says what regressed
    since then. Ops that fail for one cause are one line; --cause lists them all.
    """
    from opscope.base.page import Page
    from opscope.reports.compare.what_changed import what_changed
    from opscope.reports.pages.diff_page import show

    changed = what_changed(url, run_a, run_b, since, cause_id, team, owners_file)
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(changed.answer())
    else:
        show(changed, Page(), limit, team)
    compared = changed.compared
    if check and any(series_diff.news for series_diff in compared):
        raise SystemExit(1)
    if check and not compared:
        raise InputError("--check", "a night or run to compare with", "the first night", "the next night")
    for series_diff in compared:
        if check and not series_diff.in_both:
            got = f"none in {series_diff.a.run_id} and {series_diff.b.run_id}"
            raise InputError("--check", "ops that were attempted in both runs", got, "two runs of the same models")


@click.command(short_help="Rank fixes by the models and uses that they help.")
@click.argument("run", required=False)
@DB
@click.option(
    "--by", type=click.Choice(["cluster", "op"]), default="cluster", show_default=True, help="What counts as one fix."
)
@OWNER
@OWNERS
@LIMIT
@JSON
def unblock(
    run: str | None, url: str | None, by: str, team: str | None, owners_file: Path | None, limit: int, as_json: bool
) -> None:
    """Rank fixes by the models and uses that they help, and list the fixes that complete models fastest.

    With RUN (a folder, an id, or the id or date of a night), look at the models of that run, or at each series of that
    night; a date stands for all nights of that day. Without it, look at the newest night of each series (backend,
    board, options) that has not stopped; where there is no night, or a run is newer, at every model in its newest run
    of the newest run's series. A later run of selected ops (--ops, -k) is left out.
    """
    from opscope.base.document.in_terminal import show
    from opscope.base.page import Page
    from opscope.reports.compare import to_fix
    from opscope.reports.compare import unblock as ranking
    from opscope.reports.compare.night_diff import tonight
    from opscope.reports.compare.owned import own_plan
    from opscope.reports.compare.readiness import newer_selections, views_asked_for
    from opscope.reports.compare.run_selection import left_out_line, open_runs
    from opscope.reports.database.owners import rules_here

    with open_runs(url, named=(run,)) as runs:
        views, night = views_asked_for(runs, run)
        left_out = newer_selections(runs, views) if run is None else []
        stopped = tonight(runs.connection)[1] if run is None and runs.connection is not None else ()
        rules = rules_here(runs.connection, owners_file, team=team)
    plans = [own_plan(ranking.plan(plan, by), rules, team) for plan in views]
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.unblock import SeriesOfNight, Unblock

        names = tuple(run.run_id for run in left_out)
        series = [Unblock(**vars(plan), left_out=names, stopped=stopped) for plan in plans]
        print_answer(SeriesOfNight(series=tuple(series)) if night or len(series) > 1 else series[0])
        return
    page, line = Page(), left_out_line(left_out, stopped)
    for place, plan in enumerate(plans):
        if place:
            page.line()
        show(to_fix.document(plan, limit, team, "" if place else line), page)


@click.command(short_help="List the ops that keep a model from running as a whole.")
@click.argument("model")
@click.option("--run", default=None, help="A run, or the id or date of a night; default: the model's newest run.")
@DB
@OWNER
@OWNERS
@LIMIT
@JSON
def readiness(
    model: str, run: str | None, url: str | None, team: str | None, owners_file: Path | None, limit: int, as_json: bool
) -> None:
    """List the ops that keep MODEL from running as a whole, and how many there were in each earlier run.

    A later run of selected ops (--ops, -k) is left out. Nights are shown series by series, without --run the newest of
    each that has not stopped; a date stands for all nights of that day.
    """
    from opscope.base.document.in_terminal import show
    from opscope.base.page import Page
    from opscope.reports.compare import to_fix
    from opscope.reports.compare.readiness import readiness_of

    of_series, night = readiness_of(model, url, run, team, owners_file)
    if as_json:
        from opscope.wire import readiness as wire
        from opscope.wire.answer import print_answer

        series = [wire.readiness_of(each) for each in of_series]
        print_answer(wire.SeriesOfNight(series=tuple(series)) if night or len(series) > 1 else series[0])
        return
    page = Page()
    for each in of_series:
        show(to_fix.of_model(each, limit), page, few=limit)
