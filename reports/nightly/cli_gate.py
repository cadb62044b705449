"""`opscope gate`: whether a change makes anything worse, for pull requests and before a push."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click


@click.command(short_help="Say whether a change makes an op worse than in the last night.")
@click.option("--baseline", default="main", show_default=True, metavar="BRANCH",
              help="Branch whose newest complete night is the measure; or a night's name or id.")  # fmt: skip
@click.option("--budget", default="10m", show_default=True, metavar="TIME", help="Start no op after this time.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE",
              help="What the night runs; default: ci/nightly.yaml.")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="MODEL", help="Only these models of it: names, globs.")
@click.option("--database", metavar="URL", help="Database with the night; default: that of the configuration.")
@click.option("--summary", "summary_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Add the table to FILE too; default: the page of a GitHub job.")  # fmt: skip
def gate(
    baseline: str, budget: str, config_file: Path | None, models: tuple[str, ...], database: str | None,
    summary_file: Path | None,
) -> None:  # fmt: skip
    """Run what a change invalidates, riskiest first, and compare with the last complete night of a branch.

    Verdicts that still hold (same op, values, compiler, board and options) are not run again. Exit code 1 where an op
    is NEW, REASON-CHANGED or PCC-DROP, neither known nor flaky, or where a sweep did not run; older failures fail
    nothing.
    """
    from opscope.harness.settings.settings import BY_NAME
    from opscope.reports.database.owners import rules_here
    from opscope.reports.nightly import running
    from opscope.reports.nightly.config import CONFIG_FILE, read_config
    from opscope.reports.nightly.gate import run
    from opscope.reports.nightly.night import add_to_page_of_job
    from opscope.reports.nightly.progress import Display
    from opscope.reports.nightly.sweeps import expected_models, sweeps

    root = Path.cwd()
    told = read_config(config_file or CONFIG_FILE)
    told = replace(told, budget=BY_NAME["budget"].read("--budget", budget), models=models or told.models)
    expected_models(told)
    url = told.database_url(root, database)
    rules = rules_here(None, told.owners, root)
    try:
        with running.ended_by_signal(), Display(len(sweeps(replace(told, shards=1)))) as display:
            over = run(told, url, baseline, root, rules, display.watch, display.line)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing is compared", err=True)
        raise SystemExit(130) from None
    problem = add_to_page_of_job(over.summary, summary_file)
    click.echo(over.summary, nl=False)
    for line in filter(None, (problem, f"summary   {over.path}")):
        click.echo(line)
    if over.verdict.fails:
        raise SystemExit(1)
