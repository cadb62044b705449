"""`opscope note`: notes about causes of failure, and their acknowledgement."""

from __future__ import annotations

import getpass
from datetime import datetime

import click

from opscope.reports.commands.compare import DB, JSON


@click.command(short_help="Write what is known of a cause of failure, and acknowledge it.")
@click.argument("cause", required=False)
@click.argument("text", required=False)
@click.option("--by", "author", metavar="WHO", help="Who writes it; default: the name of your login.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Acknowledge the cause: nights up to DATE do not alarm for it.",
)
@click.option("--list", "listed", is_flag=True, help="List the notes; with --json as JSON.")
@click.option("--remove", "removed", metavar="CAUSE", help="Remove the note of the cause whose id begins so.")
@DB
@JSON
def note(
    cause: str | None,
    text: str | None,
    author: str | None,
    until: datetime | None,
    listed: bool,
    removed: str | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Write a note about the CAUSE of a failure, by its id or the beginning of it (opscope diff shows it).

    The note is shown wherever the cause is. A cause has one note; another one takes its place. With --until, the cause
    is acknowledged: nights up to DATE count its failures and show them, but neither fail nor send a message for them.
    After DATE they do again, and say so.
    """
    from opscope.harness.record.causes import cause_named, short
    from opscope.harness.record.errors import InputError
    from opscope.reports.compare.op_history import causes_beginning
    from opscope.reports.database.database import open_database
    from opscope.reports.database.notes import note_of, read_notes, remove_note, write_note
    from opscope.reports.database.reading import database_url, refuse_missing
    from opscope.reports.publish.sentences import renew_newest

    target = database_url(url)
    asked = [name for name, given in (("CAUSE", cause), ("--list", listed), ("--remove", removed)) if given]
    if len(asked) != 1 or (cause and not text):
        got = " and ".join(asked) if len(asked) > 1 else "no TEXT" if cause else "nothing"
        raise InputError("opscope note", "CAUSE and TEXT, --list or --remove CAUSE", got, "opscope note --list")
    if listed:
        _list(target, as_json=as_json)
        return
    refuse_missing(target)
    with open_database(target, "--db") as connection:
        if removed:
            name = cause_named(removed, read_notes(connection), "--remove")
            remove_note(connection, name)
            said = f"cause {short(name)} has no note any more"
        else:
            assert cause is not None
            assert text is not None
            name = cause_named(cause, causes_beginning(connection, cause), "CAUSE")
            written = note_of(name, text, author or getpass.getuser(), until.date() if until else None)
            earlier = read_notes(connection).get(name)
            write_note(connection, written)
            quiet = f"; nights up to {written.until} do not alarm for it" if written.until else ""
            said = f"cause {short(name)}, by {written.author}{quiet}"
            if earlier is not None and earlier.text != written.text:
                said += f"; it takes the place of the note of {earlier.author}: {earlier.text}"
        renew_newest(connection)
    click.echo(said)


def _list(target: str, *, as_json: bool) -> None:
    """Prints the notes of a database."""
    from opscope.base.page import Page
    from opscope.harness.record.causes import short
    from opscope.reports.database.notes import read_notes
    from opscope.reports.database.reading import read_database

    with read_database(target) as connection:
        notes = read_notes(connection).values()
    if as_json:
        from opscope.wire import answer
        from opscope.wire import note as wire

        answer.print_answer(list(notes), wire.PRINTS)
    else:
        heads = ("cause", "until", "by", "written (UTC)", "note")
        rows = [(short(each.cause), each.until, each.author, each.written, each.text) for each in notes]
        Page().table([(head, "") for head in heads], rows, fillable=("until",))
