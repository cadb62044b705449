"""`opscope status`: shows whether nights arrive, to people and to monitors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from opscope.base.results_folder import SetAside
    from opscope.reports.database.status import Night


@click.command(short_help="Show the newest nights; --max-age checks their age.")
@click.option(
    "--max-age", metavar="AGE", help="Exit with 1 if no complete night is younger than this, such as 26h or 2d."
)
@click.option("--name", help="Only nights of this name.")
@click.option("--database", "--db", "url", metavar="URL", help="Results database; default: .opscope/opscope.sqlite.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(max_age: str | None, name: str | None, url: str | None, as_json: bool) -> None:
    """Show the newest night, the newest complete night, and the runs in .opscope/spool that wait for the database or
    were refused by it.

    Exit code 1 if no complete night is younger than --max-age, if no night came by the hour that `by` of its
    configuration says, if a receiver did not take the message of the newest night here, or if a night is dated later
    than now, which is never the newest; 2 if the database cannot be read.
    """
    from opscope.harness.record.errors import InputError, closest
    from opscope.reports.database.files import default_url
    from opscope.reports.database.newest import ahead_line
    from opscope.reports.database.reading import NIGHTLY, read_database
    from opscope.reports.database.status import demo_nights, missed_hour, names_of_nights, newest_nights
    from opscope.reports.publish import spool
    from opscope.reports.publish.upkeep import age_of
    from opscope.reports.records.night_record import unsent

    limit = None if max_age is None else age_of("--max-age", max_age)
    target = url or default_url()
    waiting = [run.name for run in spool.waiting(target, Path.cwd())]
    refused = spool.refused(target, Path.cwd())
    if not as_json:
        _print_spool(waiting, refused)
    with read_database(target, "--database", NIGHTLY) as connection:
        newest, complete = newest_nights(connection, name)
        if name is not None and newest is None and limit is None:
            raise InputError("--name", "the name of a night", repr(name), closest(name, names_of_nights(connection)))
        missed = missed_hour(connection, name, datetime.now(UTC))
        demos, ahead = demo_nights(connection), ahead_line(connection)
    now = datetime.now(UTC)
    of_night, undelivered = unsent(Path.cwd())
    late = limit is not None and (complete is None or complete.age(now) >= limit)
    if as_json:
        from opscope.wire import status as wire
        from opscope.wire.answer import print_answer

        print_answer(
            wire.Status(
                newest=wire.night_of(newest, now),
                newest_complete=wire.night_of(complete, now),
                spool=tuple(waiting),
                refused=tuple(wire.Refused(folder=str(each.folder), reason=each.reason) for each in refused),
                late=late,
                missed=missed,
                unsent=tuple(undelivered),
                demo_nights=demos,
                ahead=ahead,
            )
        )
    else:
        _print_nights(newest, complete, now)
        for line in (
            f"not counted: demo data of {demos} night{'s' * (demos != 1)}" if demos else "",
            ahead,
            f"late: no complete night is younger than {max_age}" if late else "",
            f"late: {missed}" if missed else "",
            *(f"the message of {of_night} was not sent: {line}" for line in undelivered),
        ):
            if line:
                click.echo(line)
    if late or missed or undelivered or ahead:
        raise SystemExit(1)


def _print_nights(newest: Night | None, complete: Night | None, now: datetime) -> None:
    """The newest complete night, and the newest where it is none."""
    click.echo(f"newest complete night: {f'{complete.night_id}, {complete.age_text(now)} old' if complete else 'none'}")
    if newest and not newest.complete:
        click.echo(f"newest night: {newest.night_id}, {newest.age_text(now)} old, partial: {newest.missing}")


def _print_spool(waiting: Sequence[str], refused: Sequence[SetAside]) -> None:
    """Which runs the database has not got, before it is asked anything."""
    from opscope.base.visible_text import visible

    if waiting:
        runs = "1 run waits" if len(waiting) == 1 else f"{len(waiting)} runs wait"
        click.echo(f"{runs} in the spool for the database: {', '.join(waiting[:5])}; deliver with opscope publish")
    for each in refused:
        click.echo(visible(each.line))
