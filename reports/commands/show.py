"""What `opscope show` prints of an op, of a model, or of a run that only the database has."""

from __future__ import annotations

from pathlib import Path

from opscope.reports.commands.compare import print_json
from opscope.reports.compare.op_history import Told, find
from opscope.reports.records.terminal import Page, percent

SHOWN = 20
"""Rows per list."""


def show(name: str, url: str | None, team: str | None, owners_file: Path | None, as_json: bool) -> None:
    """Prints what the database at `url` (default: this folder's) knows of `name`. Raises InputError for nothing."""
    from opscope.reports.compare.run_selection import open_runs
    from opscope.reports.database.owners import rules_here

    with open_runs(url) as runs:
        connection = runs.database(name, "WHAT")
        found = find(connection, name, rules_here(connection, owners_file, team=team), team)
    if as_json:
        print_json(found)
    else:
        PAGES[found["what"]](found, Page())


def _op(found: Told, page: Page) -> None:
    page.line(f"{found['op_name']} [{found['op_id']}] {found['signature']}", "bold")
    for name, value in found["op_params"].items():
        page.line(f"{name} = {value}", "dim", indent=2)
    if found["unsplittable"]:
        page.line(f"cannot be split from its model: {found['unsplittable']}")
    if found["once"]:
        page.line(f"former ids: {', '.join(found['once'])}", "dim")
    models = list(found["models"].items())
    told = ", ".join(f"{model} ({uses})" for model, uses in models[:SHOWN])
    more = f" and {len(models) - SHOWN} more" if len(models) > SHOWN else ""
    page.line(f"is in {len(models)} models: {told}{more}")
    for place in found["places"]:
        page.line(place, "dim", indent=2)
    columns = [("night", ""), ("on", ""), ("status", ""), ("at", ""), ("PCC", "right"), ("cycles", "right"),
               ("compile ms", "right"), ("owner", ""), ("error message", "")]  # fmt: skip
    page.table(columns, [
        (one["label"], " ".join(filter(None, (one["backend"], one["arch"], one["data_format"]))),
         one["status"] + (" (flaky)" if one["flaky"] else "") + (" (known)" if one["expected"] else ""),
         one["failed_stage"], one["pcc"], one["cycles"], one["compile_ms"], one["owner"], one["error_message"])
        for one in found["history"]
    ])  # fmt: skip
    if found["repro"]:
        page.line(found["repro"])


def _model(found: Told, page: Page) -> None:
    page.line(found["model"], "bold")
    for series in found["lanes"]:
        newest = series["newest"]
        page.line()
        page.line(f"{series['series']}, {newest['label']}", "bold")
        if newest["outcome"] != "ran":
            page.line(f"{newest['outcome']} {newest['reason']}")
            continue
        page.line(f"{newest['right_ops']} of {newest['ops']} ops right ({percent(newest['readiness'])}), "
                  f"{newest['bad_ops']} wrong, {newest['not_attempted']} not attempted")  # fmt: skip
        page.table([("furthest stage", ""), ("ops", "right"), ("uses", "right")],
                   [(rung["stage"], rung["ops"], rung["uses"]) for rung in series["ladder"]])  # fmt: skip
        for one in series["blockers"][:SHOWN]:
            known = f"; known: {one['known']}" if one["known"] else ""
            known += f"; owner {one['owner']}" if one["owner"] else ""
            page.line(f"{one['op_name']} [{one['op_id']}] {one['signature']}", indent=2)
            page.line(f"{one['uses']} uses; {one['label']}; {one['status']} at {one['stage']}{known}: {one['message']}",
                      "dim", indent=4)  # fmt: skip
            page.line(one["repro"], "dim", indent=4)
        if len(series["blockers"]) > SHOWN:
            page.line(f"and {len(series['blockers']) - SHOWN} more; see opscope readiness {found['model']}", indent=2)
    page.line()
    page.table([("night", ""), ("on", ""), ("outcome", ""), ("ops", "right"), ("right", "right"), ("wrong", "right")], [
        (one["label"], " ".join(filter(None, (one["backend"], one["arch"], one["data_format"]))), one["outcome"],
         one["ops"], one["right_ops"], one["bad_ops"]) for one in found["trend"]
    ])  # fmt: skip


def _run(found: Told, page: Page) -> None:
    page.line(f"{found['run_id']}: {found['backend']} on {found['arch']}, {found['outcome']}", "bold")
    page.line(", ".join(f"{count} {status}" for status, count in found["statuses"].items()))
    for one in found["failing"][:SHOWN]:
        known = f"; known: {one['known']}" if one["known"] else ""
        known += f"; owner {one['owner']}" if one["owner"] else ""
        page.line(f"{one['op_name']} [{one['op_id']}] {one['types']}", indent=2)
        page.line(f"{one['uses']} uses; {one['status']} at {one['stage']}{known}: {one['error']}", "dim", indent=4)
        page.line(one["repro"], "dim", indent=4)
    if len(found["failing"]) > SHOWN:
        page.line(f"and {len(found['failing']) - SHOWN} more; see --json", indent=2)


PAGES = {"op": _op, "model": _model, "run": _run}
