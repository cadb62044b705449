"""`opscope scoreboard`: a static page of compilers, releases, op families and models."""

from __future__ import annotations

from pathlib import Path

import click

from opscope.reports.commands.compare import DB


@click.command(short_help="Write a static page: compilers, releases, ops.")
@click.option(
    "-o",
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="Where.",
)
@DB
def scoreboard(folder: Path, url: str | None) -> None:
    """Write a scoreboard into DIR: how many ops each release of each compiler supports, by op family and by model.

    The releases are those of `opscope history`; of other backends it is the newest night. The pages need no server and
    no network, every cell leads to its ops, and equal databases give equal files.
    """
    from opscope.reports.database.reading import database_url, read_database
    from opscope.reports.pages.scoreboard import INDEX, write
    from opscope.reports.pages.scoreboard import scoreboard as read

    with read_database(database_url(url), "--db") as connection:
        board = read(connection)
    files = write(board, folder)
    for compiler, columns in board.compilers:
        counts = ", ".join(f"{column.release} {column.all['supported']}/{column.tried}" for column in columns)
        click.echo(f"{compiler}: {counts}")
    click.echo(f"{folder / INDEX}, and {len(files) - 1} more files")
