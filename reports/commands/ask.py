"""The commands `opscope sql` and `opscope export`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from opscope.base.finite_number import FiniteNumber
from opscope.reports.commands.compare import DB, JSON, LIMIT


def _questions(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The stored questions that begin so."""
    from opscope.reports.database import ask

    return [
        CompletionItem(question.name, help=question.asks)
        for question in ask.questions().values()
        if question.name.startswith(incomplete)
    ]


@click.command(short_help="Query the results database, in SQL or by a stored question.")
@click.argument("query", required=False, shell_complete=_questions)
@DB
@JSON
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--cause", "cause_id", metavar="ID", help="Only rows of the cause whose id begins so.")
@LIMIT
@click.option(
    "--timeout",
    "seconds",
    type=FiniteNumber(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the query, in seconds.",
)
def sql(
    query: str | None,
    url: str | None,
    as_json: bool,
    as_csv: bool,
    cause_id: str | None,
    limit: int,
    seconds: float,
) -> None:
    """Query the results database, in SQL or by the name of a stored question.

    QUERY is SQL, `-` to read SQL from stdin, or the name of a stored question. Without QUERY, list the stored
    questions. The database is opened read-only. --cause needs an answer with a column `cause` or `cluster`.
    """
    from opscope.base.page import Page
    from opscope.harness.record.errors import InputError
    from opscope.reports.database import ask

    if as_json and as_csv:
        raise InputError("opscope sql", "one format", "--json and --csv", "--json")
    if query is None:
        questions = ask.questions().values()
        if as_json:
            from opscope.wire import sql as wire
            from opscope.wire.answer import print_answer

            print_answer(list(questions), wire.Questions)
        else:
            Page().table(
                [("opscope sql", ""), ("asks", "")], [(question.name, question.asks) for question in questions]
            )
        return
    text = sys.stdin.read() if query == "-" else query
    answer = ask.ask(url, text, seconds=seconds)
    if cause_id is not None:
        answer = ask.of_cause(answer, cause_id, "--cause")
    if as_json:
        click.echo(json.dumps(answer.records(), indent=2, allow_nan=False))
    elif as_csv:
        click.echo(ask.as_csv(answer.columns, answer.rows), nl=False)
    else:
        page = Page()
        page.table([(name, "") for name in answer.columns], ask.shown_rows(answer, limit))
        if len(answer.rows) > limit:
            page.line(f"and {len(answer.rows) - limit} more rows; see --limit, --json, --csv")


@click.command(short_help="Write a run as JSON, XML, CSV or Parquet for other programs.")
@click.argument("run", required=False)
@click.option(
    "--format",
    "kind",
    required=True,
    help="Format to write.",
    type=click.Choice(["optest-json", "builder-xml", "junit", "csv", "parquet"]),
)
@click.option("--job-id", type=click.IntRange(1), help="Number of the CI job; optest-json and builder-xml need it.")
@click.option(
    "-o", "--output", default=".", show_default=True, metavar="DIR", help="Folder to write to, or `-` for stdout."
)
@DB
def export(run: str | None, kind: str, job_id: int | None, output: str, url: str | None) -> None:
    """Write RUN (a folder or an id; default: the newest) in a format that other programs read."""
    from opscope.base.inner_path import inside
    from opscope.harness.record.store import refused, write_whole
    from opscope.reports.compare.run_selection import open_runs
    from opscope.reports.exports import export_csv, export_junit, export_optest, export_parquet
    from opscope.reports.exports.exported import read

    with open_runs(url, named=(run,)) as runs:
        exported = read(runs, run)
    if kind == "optest-json":
        number = export_optest.job_of(exported, job_id)
        name, text = export_optest.file_name(number), export_optest.render(exported, number)
    elif kind == "builder-xml":
        number = export_optest.job_of(exported, job_id)
        name, text = export_junit.file_name(exported, number), export_junit.render(exported, for_builder=True)
    elif kind == "junit":
        name, text = export_junit.file_name(exported, job_id), export_junit.render(exported)
    elif kind == "parquet":
        name, text = export_parquet.file_name(exported), export_parquet.render(exported)
    else:
        name, text = export_csv.file_name(exported), export_csv.render(exported)
    if output == "-":
        click.echo(text, nl=False)
    else:
        try:
            place = inside(Path(output), name)
        except OSError as error:
            raise refused(Path(output) / name, error, "--output") from error
        click.echo(write_whole(place, text, "--output"))
