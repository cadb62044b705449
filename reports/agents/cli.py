"""The commands `opscope agents` and `opscope mcp`."""

from __future__ import annotations

from pathlib import Path

import click

from opscope.base.path_option import path_option
from opscope.reports.agents.instructions import BLOCK, FILE, written


@click.command(short_help="Print or write instructions for assistants that triage nights.")
@path_option(
    "--write",
    "file",
    is_flag=False,
    flag_value=FILE,
    metavar="[FILE]",
    help=f"Write them into FILE as a marked block, and leave the rest as it is; default: {FILE}.",
)
def agents(file: Path | None) -> None:
    """Print the instructions for assistants, or write them into a file of this repository with --write.

    The block stands between two marks, is written anew each time, and nothing else in the file changes.
    """
    click.echo(BLOCK if file is None else written(file), nl=file is not None)


@click.command(short_help="Serve the results to an assistant, read-only (Model Context Protocol).")
@click.option("--db", "url", metavar="URL", help="Results database; default: .opscope/opscope.sqlite.")
def mcp(url: str | None) -> None:
    """Serve the results to an assistant over standard input and output, by the Model Context Protocol.

    Its tools are the commands that read: status, diff, unblock, readiness, show, sql. Nothing can be written or run
    through it. Needs the extra `mcp`. An assistant starts it as `opscope mcp --db URL`.
    """
    from opscope.reports.agents.server import server

    server(url).run("stdio")
