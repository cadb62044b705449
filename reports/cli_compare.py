"""The verbs that compare runs and rank what to fix: `opscope diff`, `unblock`, `readiness`."""

from __future__ import annotations

import json
from typing import Any

import click

DB = click.option("--db", "url", default=None, metavar="URL", help="Results database; .opscope/opscope.sqlite here.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
LIMIT = click.option("--limit", type=click.IntRange(1), default=30, show_default=True, help="Rows per table.")


def print_json(value: Any) -> None:
    """Prints `value` for another program: no NaN in it, which is no JSON."""
    from reports.columns import plain

    click.echo(json.dumps(plain(value), indent=2, allow_nan=False))


@click.command(short_help="Compare two runs, op by op.")
@click.argument("run_a", required=False)
@click.argument("run_b", required=False)
@DB
@click.option("--check", is_flag=True, help="Exit 1 where an op is NEW, REASON-CHANGED or PCC-DROP, known ones apart.")
@LIMIT
@JSON
def diff(
    run_a: str | None, run_b: str | None, url: str | None, check: bool, limit: int, as_json: bool
) -> None:  # fmt: skip
    """Compare two runs, op by op: NEW, FIXED, PERSISTING, REASON-CHANGED, PCC-DROP, SLOWER, VANISHED, NEVER-RUN.

    RUN_A and RUN_B are run folders or ids in the database; without them the two newest comparable runs (same backend,
    board and options, a model in common); with one, that run against the newest comparable one before it.
    """
    from reports import diff as comparison
    from reports.choosing import open_runs
    from reports.diff_page import show
    from reports.history import compared
    from reports.terminal import Page

    with open_runs(url) as runs:
        found = compared(runs, run_a, run_b)
    if as_json:
        print_json(comparison.as_json(found))
    else:
        show(found, Page(), limit)
    if check and found.news:
        raise SystemExit(1)


@click.command(short_help="Rank what to fix by the models and uses it holds back.")
@click.argument("run", required=False)
@DB
@click.option("--by", type=click.Choice(["cluster", "op"]), default="cluster", show_default=True, help="What a fix is.")
@LIMIT
@JSON
def unblock(run: str | None, url: str | None, by: str, limit: int, as_json: bool) -> None:
    """Rank what to fix by the models and uses it holds back, with the shortest way to whole models.

    With RUN (a folder or an id), for the models of that run; else for every model, by its newest run of the series
    (backend, board, options) of the newest run.
    """
    from reports import unblock as ranking
    from reports.choosing import open_runs
    from reports.readiness import newest_views, views_of
    from reports.terminal import Page
    from reports.unblock_page import show_plan

    with open_runs(url) as runs:
        if run is None:
            runs.newest()
            views = newest_views(runs)
        else:
            views = views_of(runs.view(run))
    found = ranking.plan(views, by)
    if as_json:
        print_json(ranking.as_json(found))
    else:
        show_plan(found, Page(), limit)


@click.command(short_help="List each op that keeps a model from running whole.")
@click.argument("model")
@click.option("--run", default=None, help="A run folder or id; default: the model's newest run.")
@DB
@LIMIT
@JSON
def readiness(model: str, run: str | None, url: str | None, limit: int, as_json: bool) -> None:
    """List each op that keeps MODEL from running whole, and how their count moved from run to run."""
    from harness.errors import InputError, closest
    from reports.choosing import open_runs
    from reports.readiness import history, newest_views
    from reports.terminal import Page
    from reports.unblock import missing
    from reports.unblock_page import show_readiness

    with open_runs(url) as runs:
        view = newest_views(runs, [model])[model] if run is None else runs.view(run, "--run")
        if model not in view.models:
            hint = closest(model, view.models)
            raise InputError("MODEL", f"a model of run {view.run_id}", f"`{model}`", hint)
        moved = history(runs, view, model)
    rows = missing(view, model)
    if as_json:
        print_json({"model": model, "run_id": view.run_id, "missing": rows, "history": moved})
    else:
        show_readiness(view, model, rows, moved, Page(), limit)
