"""`opscope merge`: run folders of `--shard` joined to one, with its page and, if asked, its rows."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import click


@click.command(short_help="Join the runs of all shares of a sweep (--shard).")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--into", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The new run folder.")
@click.option("--partial", is_flag=True, help="Accept missing shares; their ops are not_run.")
@click.option("--publish", "url", metavar="URL", help="Also write the joined run to this database.")
def merge(runs: tuple[Path, ...], into: Path, partial: bool, url: str | None) -> None:
    """Join the run folders of all shares of a sweep (--shard) into one, as if the sweep had run as a whole.

    Exit code 1 if an op fails and no limitation names the failure, as in a whole run, or if the joined run is neither
    in the database nor kept in .opscope/spool.
    """
    from opscope.base.terminal import console
    from opscope.base.visible_text import visible
    from opscope.harness.page import summary
    from opscope.harness.run import finish_run
    from opscope.harness.run.merge_shares import merge as join
    from opscope.reports.database import database
    from opscope.reports.database.files import default_url
    from opscope.reports.pages.html import write_report
    from opscope.reports.publish.spool import deliver

    if url is not None:
        database.usable_url(url, "--publish")
    into = into.absolute()
    join(runs, into, partial=partial)
    write_report(into, url or default_url())
    delivery = None if url is None else deliver(into, url, Path.cwd(), "--publish")
    page = finish_run.stored_page(into)
    if url is None:
        arrived = {"publish": f"opscope publish {shlex.quote(str(into))}"}
    else:
        arrived = (
            {"database": database.shown(database.parse_url(url))} if delivery and delivery.rows is not None else {}
        )
    summary.show(replace(page, places={**page.places, **arrived}), console())
    for line in () if delivery is None else (*(each.line for each in delivery.earlier), *map(str, delivery.problems)):
        click.echo(visible(line))
    if any(test.fails_run for test in page.tests) or (delivery is not None and delivery.lost):
        raise SystemExit(1)
