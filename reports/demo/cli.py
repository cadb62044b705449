"""`opscope demo`: a database with thirty nights to look at before you have your own."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from opscope.base.path_option import path_option


@click.command()
@click.option("--to", "url", metavar="URL", help="Database to fill; default: .opscope/demo/opscope.sqlite.")
@path_option("--runs", "folder", metavar="DIR", help="Folder for the run folders; default: .opscope/demo/runs.")
@click.option(
    "--nights",
    "count",
    default=30,
    show_default=True,
    type=click.IntRange(1, 30),
    help="Number of dates, each with a night of each series.",
)
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), help="Day of the last night; default: today.")
@click.option("--seed", default=0, show_default=True, help="Seed of the story; another one breaks other ops.")
def demo(url: str | None, folder: Path | None, count: int, until: datetime | None, seed: int) -> None:
    """Fill a database with the nights of thirty dates, all demo data.

    The nights replay runs that were recorded from this project's models; what breaks in them is made up. All of it is
    marked as demo data, and a database with runs of your own is refused.
    """
    import sqlalchemy as sa

    from opscope.base.live import progress
    from opscope.base.results_folder import results_folder
    from opscope.base.visible_text import counted
    from opscope.harness.record.errors import InputError
    from opscope.reports.database.database import open_database, parse_url, shown
    from opscope.reports.database.files import file_url
    from opscope.reports.database.owners import store_owners
    from opscope.reports.database.reading import read_database
    from opscope.reports.database.schema import NIGHTS
    from opscope.reports.database.schema_nights import NIGHT_SERIES
    from opscope.reports.demo.replay import nights, write_night
    from opscope.reports.demo.story import OWNERS
    from opscope.reports.publish.publish import publish

    home = results_folder() / "demo"
    target = url or file_url(home / "opscope.sqlite")
    place = folder or home / "runs"
    day = (until or datetime.now(UTC)).replace(hour=2, minute=0, second=0, microsecond=0, tzinfo=UTC)
    if until is None and day > datetime.now(UTC):
        day -= timedelta(days=1)
    database = shown(parse_url(target))
    with open_database(target) as connection:
        if yours := connection.scalar(sa.select(sa.func.count()).select_from(NIGHTS).where(~NIGHTS.c.demo)):
            got = f"{counted(yours, 'night')} of yours in {database}"  # a trend over both would be wrong
            raise InputError("--to", "a database without real runs", got, "a database of its own")
        store_owners(connection, OWNERS)
    tests = 0
    for night in progress.each(nights(day, seed, count), "night", count):
        for run_dir in write_night(place, night):
            tests += publish(run_dir, target)["op_tests"]
    with read_database(target) as connection:
        night, series = (sa.func.count(sa.distinct(NIGHT_SERIES.c[name])) for name in ("night_id", "series"))
        made, several = connection.execute(sa.select(night, series)).one()
    dates = f"{count} date{'s' * (count != 1)}, {made} nights of {several} series"
    click.echo(f"{dates}, {tests:,} op tests of demo data (seed {seed}) in {database}")
    click.echo("to look at them:")
    for line in (
        "opscope dashboard up",
        "opscope diff",
        "opscope unblock",
        "opscope unblock --owner kernels",
        f"opscope report --runs {shlex.quote(str(place))}",
        "opscope sql top_errors",
    ):
        click.echo(f"  {line} --db {database}")
