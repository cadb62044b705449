"""The verbs that take results elsewhere: `opscope sql`, `opscope export`."""

from __future__ import annotations

import sys

import click

from reports.cli_compare import DB, JSON, LIMIT, print_json


@click.command()
@click.argument("query", required=False)
@DB
@JSON
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@LIMIT
def sql(query: str | None, url: str | None, as_json: bool, as_csv: bool, limit: int) -> None:
    """Ask the results database: QUERY is SQL, `-` for SQL on stdin, or the name of a stored question.

    Without QUERY, list the stored questions. The database is opened read-only.
    """
    from harness.errors import InputError
    from reports import ask
    from reports.reading import database_url
    from reports.terminal import Page

    if as_json and as_csv:
        raise InputError("opscope sql", "one format", "--json and --csv", "either")
    if query is None:
        known = ask.questions().values()
        if as_json:
            print_json([{"name": one.name, "asks": one.asks, "sql": one.sql} for one in known])
        else:
            Page().table([("opscope sql", ""), ("asks", "")], [(one.name, one.asks) for one in known])
        return
    text = sys.stdin.read() if query == "-" else query
    answer = ask.ask(database_url(url), text)
    if as_json:
        print_json(answer.records())
    elif as_csv:
        click.echo(ask.as_csv(answer), nl=False)
    else:
        page = Page()
        page.table([(name, "") for name in answer.columns], ask.shown_rows(answer, limit))
        if len(answer.rows) > limit:
            page.line(f"and {len(answer.rows) - limit} more rows: --limit, --json, --csv")
