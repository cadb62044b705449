"""`opscope status`: shows whether nights arrive, to people and to monitors."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click


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
    from opscope.base.visible_text import visible
    from opscope.harness.record.errors import InputError, closest
    from opscope.reports.database.files import default_url
    from opscope.reports.database.newest import ahead_line
    from opscope.reports.database.reading import NIGHTLY, read_database
    from opscope.reports.database.status import age_text, demo_nights, missed_hour, names_of_nights, newest_nights
    from opscope.reports.publish import spool
    from opscope.reports.publish.upkeep import age_of
    from opscope.reports.records.night_record import unsent

    limit = None if max_age is None else age_of("--max-age", max_age)
    target = url or default_url()
    waiting = [run.name for run in spool.waiting(target, Path.cwd())]
    if waiting and not as_json:
        runs = "1 run waits" if len(waiting) == 1 else f"{len(waiting)} runs wait"
        click.echo(f"{runs} in the spool for the database: {', '.join(waiting[:5])}; deliver with opscope publish")
    refused = spool.refused(target, Path.cwd())
    for each in () if as_json else refused:
        click.echo(visible(each.line))
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
        from opscope.wire.answer import print_answer
        from opscope.wire.status import Night, Refused, Status

        shown = [
            night
            and Night(
                night_id=night.night_id,
                started=night.started,
                missing=night.missing,
                age_hours=round(night.age(now).total_seconds() / 3600, 3),
            )
            for night in (newest, complete)
        ]
        print_answer(
            Status(
                newest=shown[0],
                newest_complete=shown[1],
                spool=tuple(waiting),
                refused=tuple(Refused(folder=str(each.folder), reason=each.reason) for each in refused),
                late=late,
                missed=missed,
                unsent=tuple(undelivered),
                demo_nights=demos,
                ahead=ahead,
            )
        )
    else:
        for line in (
            f"newest complete night: {complete.night_id}, {age_text(complete.age(now))} old"
            if complete
            else "newest complete night: none",
            f"newest night: {newest.night_id}, {age_text(newest.age(now))} old, partial: {newest.missing}"
            if newest and not newest.complete
            else "",
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
