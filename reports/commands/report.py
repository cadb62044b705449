"""`opscope report`: the page of a run or of a night."""

from __future__ import annotations

from pathlib import Path

import click

from opscope.base.path_option import path_option
from opscope.reports.commands.compare import DB, OWNER, OWNERS


@click.command(short_help="Write the HTML report of a night or a run.")
@click.argument("what", metavar="[NIGHT|RUN]", required=False)
@DB
@path_option("-o", "--out", help="File to write; default: report.html in the run's folder, or report-NAME.html.")
@path_option(
    "--runs", "runs_dir", metavar="DIR", help="Folder of run folders that the page links to; default: .opscope/runs."
)
@OWNER
@OWNERS
def report(
    what: str | None,
    url: str | None,
    out: Path | None,
    runs_dir: Path | None,
    team: str | None,
    owners_file: Path | None,
) -> None:
    """Write the HTML report of a night, a run folder or a published run; it opens without a network.

    Default: the newest date of the database. A date stands for all nights of that day; each series is shown in the
    newest of them that has it. A published run is shown on the page of its night, with every series,
    what is missing, and what changed since the previous night. With --owner, lists show only that team's failures;
    stages, rates and charts still show all ops.
    """
    from opscope.harness.record import artifacts
    from opscope.harness.record.errors import InputError
    from opscope.harness.record.run_folders import file_name, runs_root
    from opscope.harness.record.store import read_run, write_whole
    from opscope.reports.compare.night_diff import names_night, newest_date
    from opscope.reports.compare.night_views import night_of, nights_named
    from opscope.reports.compare.owned import Owned
    from opscope.reports.compare.run_selection import open_runs
    from opscope.reports.database.owners import rules_here
    from opscope.reports.database.reading import database_url
    from opscope.reports.pages.html import write_report
    from opscope.reports.pages.night_page import render_night

    with open_runs(url, named=(what,)) as runs:
        owned = Owned(rules_here(runs.connection, owners_file, team=team), team)
        folder = runs.folder(what) if what is not None else None
        if folder is not None:
            database = database_url(url)
            artifacts.check(folder, read_run(folder).run_id)
            if out is None and team is not None:  # which does not take the place of everybody's page
                out = folder / f"report-{file_name(team)}.html"
            page = write_report(folder, database, owned=owned, out=out)
        else:
            newest = next(iter(runs.listed()), None)
            hint = f"opscope report {'RUN' if newest is None else newest.folder or newest.run_id}"
            if what is None and runs.connection is None:
                raise InputError("opscope report", "a night in the database", "none", hint)
            connection = runs.database(what or "a night", "NIGHT")
            name = what or newest_date(connection, "NIGHT", hint)
            nights = nights_named(connection, name) if names_night(connection, name) else [night_of(connection, name)]
            name = name if len(nights) > 1 else nights[0]
            target = out or Path(f"report-{file_name(f'{name}-{team}' if team else name)}.html")
            text = render_night(connection, nights, runs_dir or runs_root(), target, owned)
            page = write_whole(target, text, "-o FILE")
    click.echo(f"{page} ({page.stat().st_size / 1e6:.1f} MB)")
