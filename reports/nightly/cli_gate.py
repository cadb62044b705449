"""`opscope gate`: whether a change makes anything worse, for pull requests and before a push."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click


@click.command(short_help="Check whether a change makes an op worse than last night.")
@click.option(
    "--baseline",
    metavar="BRANCH",
    help="Branch whose newest complete night to compare with; or the name or id of a night. Default: the first that "
    "has one of: the branch that the CI job's pull request goes to, the remote's default branch, main, master, and the "
    "night's name.",
)
@click.option(
    "--budget", default="10m", show_default=True, metavar="TIME", help="Start no op after this time, such as 30m."
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration of the night; default: ci/nightly.yaml.",
)
@click.option(
    "--model", "models", multiple=True, metavar="MODEL", help="Only these models of the configuration; names or globs."
)
@click.option("--revision", metavar="COMMIT", help="Commit that is tested; default: the CI job's, else the checkout's.")
@click.option("--branch", metavar="NAME", help="Branch that is tested; default: as for --revision.")
@click.option(
    "--database",
    "--db",
    "database",
    metavar="URL",
    help="Database with the night; default: the one in the configuration.",
)
@click.option(
    "--summary",
    "summary_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also append the table to FILE; default: the summary of the GitHub job.",
)
def gate(
    baseline: str | None,
    budget: str,
    config_file: Path | None,
    models: tuple[str, ...],
    revision: str | None,
    branch: str | None,
    database: str | None,
    summary_file: Path | None,
) -> None:
    """Check whether a change makes an op worse than in the last complete night of a branch.

    Only ops whose verdict may have changed are run, the riskiest first: a verdict holds while op, values, compiler,
    board and options stay the same. Exit code 1 if an op is NEW, REASON-CHANGED or PCC-DROP, neither known, flaky nor
    acknowledged by a note, or if a sweep did not run. Failures that the baseline already has do not fail the gate.
    """
    from opscope.harness.settings.settings import BY_NAME
    from opscope.reports.database.owners import rules_here
    from opscope.reports.nightly import running
    from opscope.reports.nightly.baseline import usual_baselines
    from opscope.reports.nightly.config import CONFIG_FILE, read_config, with_commit
    from opscope.reports.nightly.gate import run
    from opscope.reports.nightly.night import add_to_page_of_job
    from opscope.reports.nightly.progress import Display
    from opscope.reports.nightly.sweeps import expected_models, sweeps

    root = Path.cwd()
    settings = with_commit(read_config(config_file or CONFIG_FILE), revision, branch)
    settings = replace(settings, budget=BY_NAME["budget"].read("--budget", budget), models=models or settings.models)
    expected_models(settings)
    url = settings.database_url(root, database)
    rules = rules_here(None, settings.owners, root)
    try:
        with running.ended_by_signal(), Display(len(sweeps(replace(settings, shards=1)))) as display:
            names = [baseline] if baseline is not None else usual_baselines(root, settings.name)
            result = run(settings, url, names, root, rules, display.watch, display.line)
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was compared", err=True)
        raise SystemExit(130) from None
    problem = add_to_page_of_job(result.summary, summary_file)
    click.echo(result.summary, nl=False)
    for line in filter(None, (problem, f"summary   {result.path}")):
        click.echo(line)
    if result.verdict.fails:
        raise SystemExit(1)
