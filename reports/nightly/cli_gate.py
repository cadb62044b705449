"""`opscope gate`: whether a change makes anything worse, for pull requests and before a push."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base.path_option import path_option
from opscope.harness.record.errors import InputError
from opscope.harness.settings.program_options import program_options, read_options

if TYPE_CHECKING:
    from opscope.reports.nightly.config import Config


NOTHING = "interrupted; nothing was compared"


@click.command(short_help="Check whether a change, or a new build of a compiler, makes anything worse.")
@click.option("--old", metavar="BACKEND", help="With --new: a build of a compiler, such as tt@0.1.2 or xla@0.10.1.")
@click.option(
    "--new", metavar="BACKEND", help="The build to compare with --old; a release, a wheel, a file or a folder."
)
@click.option("--arch", default="n150", show_default=True, metavar="BOARD", help="With --new: the board.")
@click.option(
    "--slower",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    metavar="PERCENT",
    help="With --new: by how much a model's cycles and its temporary memory may rise.",
)
@click.option(
    "--smallest/--no-smallest",
    default=True,
    help="With --new: whether to compile the ops of models that changed alone, to find the smallest that shows it.",
)
@click.option(
    "--reduce",
    default="1m",
    show_default=True,
    metavar="TIME",
    help="With --new: time to shrink the ops and models that show what changed, such as 10m; 0: none.",
)
@click.option(
    "--commits", default="", metavar="OLD..NEW", help="With --new: the commits of the builds, for the comment."
)
@click.option(
    "--backend",
    default="",
    metavar="PATH",
    help="Path of a backend's file: --old and --new are revisions that have it.",
)
@click.option("--build", default="", metavar="COMMAND", help="With --backend or --commits: how a checkout is built.")
@path_option(
    "--repo",
    default=".",
    metavar="PATH",
    help="With --backend or --commits: the repository; default: the current folder.",
)
@click.option(
    "--system-desc",
    "descriptors",
    multiple=True,
    metavar="FILE",
    help="With --new: the system descriptor of the builds; twice: that of --old, that of --new.",
)
@click.option("-n", "workers", type=click.IntRange(1, 64), default=1, show_default=True, help="With --new: processes.")
@click.option(
    "--comment", is_flag=True, help="With --new: write the result to the pull or merge request of the CI job."
)
@click.option("--json", "as_json", is_flag=True, help="With --new: print JSON.")
@program_options
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
@path_option("--config", "config_file", help="Configuration of the night; default: ci/nightly.yaml.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="Only these models of the configuration; names or globs. With --new: what both builds compile; a name, a "
    "glob, a file, or suite:ops for single ops.",
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
@path_option("--summary", "summary_file", help="Also append the table to FILE; default: the summary of the GitHub job.")
def gate(
    baseline: str | None,
    budget: str,
    config_file: Path | None,
    models: tuple[str, ...],
    revision: str | None,
    branch: str | None,
    database: str | None,
    summary_file: Path | None,
    old: str | None,
    new: str | None,
    arch: str,
    slower: float,
    smallest: bool,
    reduce: str,
    commits: str,
    backend: str,
    build: str,
    repo: Path,
    descriptors: tuple[str, ...],
    workers: int,
    comment: bool,
    as_json: bool,
    **words: str | None,
) -> None:
    """Check whether a change makes an op worse than in the last complete night of a branch.

    With --old and --new, compare two builds of a compiler instead: what each makes of the models given with --model, op
    by op, layout by layout, in cycles and in numbers. With --backend they are revisions of your own compiler, each
    built in a checkout. Exit code 0 if nothing is worse, 1 if something fails anew or a model's cycles or temporary
    memory rise by more than --slower, 2 if the builds cannot be compared.

    Without them, only ops whose verdict may have changed are run, the riskiest first: a verdict holds while op, values,
    compiler, board and options stay the same. Exit code 1 if an op is NEW, REASON-CHANGED or PCC-DROP, neither known,
    flaky nor acknowledged by a note, or if a sweep did not run. Failures that the baseline already has do not fail the
    gate.
    """
    options = read_options(words)
    if old is not None or new is not None:
        asked = {"models": models, "arch": arch, "workers": workers, "options": options}
        asked |= {"slower": slower, "smallest": smallest, "commits": commits}
        asked["reduce"] = reduce
        _builds(old, new, asked, (repo, backend, build), descriptors, summary_file, comment=comment, as_json=as_json)
        return
    if options or comment or as_json or backend or build:
        given = {"comment": comment, "json": as_json, "backend": backend, "build": build}
        got = next(iter(options), next((name for name, value in given.items() if value), ""))
        raise InputError(f"--{got.replace('_', '-')}", "--old and --new", "neither", "opscope gate --old A --new B")
    from opscope.harness.record.run_folders import NIGHT_FILE
    from opscope.reports.nightly.config import read_config, with_commit

    settings = with_commit(read_config(config_file or NIGHT_FILE), revision, branch)
    settings = replace(settings, models=models or settings.models)
    _with_a_night(settings, baseline, budget, database, summary_file)


def _with_a_night(
    settings: Config, baseline: str | None, budget: str, database: str | None, summary_file: Path | None
) -> None:
    """Runs what a change invalidates, and prints what is worse than in the last complete night."""
    from opscope.harness.settings.settings import BY_NAME
    from opscope.reports.database.owners import rules_here
    from opscope.reports.nightly import running
    from opscope.reports.nightly.baseline import usual_baselines
    from opscope.reports.nightly.gate import run
    from opscope.reports.nightly.night import add_to_page_of_job
    from opscope.reports.nightly.progress import Display
    from opscope.reports.nightly.sweeps import expected_models, sweeps

    root = Path.cwd()
    settings = replace(settings, budget=BY_NAME["budget"].read("--budget", budget))
    expected_models(settings)
    url = settings.database_url(root, database)
    rules = rules_here(None, settings.owners, root)
    with running.ended_by_signal(NOTHING), Display(len(sweeps(replace(settings, shards=1)))) as display:
        names = [baseline] if baseline is not None else usual_baselines(root, settings.name)
        result = run(settings, url, names, root, rules, display.watch, display.line)
    problem = add_to_page_of_job(result.summary, summary_file)
    click.echo(result.summary, nl=False)
    for line in filter(None, (problem, f"summary   {result.path}")):
        click.echo(line)
    if result.verdict.fails:
        raise SystemExit(1)


def _builds(
    old: str | None,
    new: str | None,
    asked: dict[str, Any],
    checkout: tuple[Path, str, str],
    descriptors: Sequence[str],
    summary_file: Path | None,
    *,
    comment: bool,
    as_json: bool,
) -> None:
    """Compares two builds, and prints what the new one changes. `checkout`: the repository of which they are revisions
    if it has a backend's file, that file, and the command that builds it."""
    from opscope.reports.nightly import builds, pull_request, running, uplift, uplift_comment
    from opscope.reports.nightly.night import add_to_page_of_job
    from opscope.reports.nightly.progress import Display

    old, new = _checked(old, new, asked, checkout, descriptors)
    place = pull_request.place() if comment else None
    sides = nullcontext((builds.Source(old, old), builds.Source(new, new)))
    with (
        running.ended_by_signal(NOTHING),
        builds.of_revisions(old, new, *checkout) if checkout[1] else sides as (first, last),
    ):
        if descriptors:
            first, last = (
                replace(side, system_desc=file)
                for side, file in zip((first, last), (descriptors[0], descriptors[-1]), strict=True)
            )
        if first.commit and not asked["commits"]:
            asked["commits"] = f"{first.commit}..{last.commit}"
        asked["revisions"] = builds.between(*checkout, asked["commits"], last)
        gate_of = uplift.Asked(old=first, new=last, root=Path.cwd(), **asked)
        with Display(gate_of.most_sweeps, aside=True) as display:
            result = uplift.run(gate_of, display.watch, display.line)
    text = uplift_comment.text(result)
    problem = add_to_page_of_job(text, summary_file)
    if place is not None:
        pull_request.write(place, text)
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.gate import Gate

        print_answer(Gate(**vars(result)))
    else:
        click.echo(text, nl=False)
    if problem:
        click.echo(problem, err=True)
    if result.worse:
        raise SystemExit(1)


def _checked(
    old: str | None,
    new: str | None,
    asked: dict[str, Any],
    checkout: tuple[Path, str, str],
    descriptors: Sequence[str],
) -> tuple[str, str]:
    """Both builds, if all is there that a gate of builds needs; reads the time of `reduce`. Raises InputError."""
    from opscope.harness.settings.settings import BY_NAME

    if old is None or new is None or not asked["models"]:
        lacks = "--old" if old is None else "--new" if new is None else "--model"
        raise InputError(
            lacks, "--old, --new and --model", f"no {lacks}", "--old tt@0.1.2 --new tt@0.1.3 --model bert_base"
        )
    time = asked["reduce"]
    asked["reduce"] = 0.0 if time == "0" else float(BY_NAME["budget"].read("--reduce", time))
    _, backend, build = checkout
    if build and not backend and not asked["commits"]:
        raise InputError("--build", "--backend PATH or --commits with it", "neither", "--backend build/mine.py")
    if len(descriptors) > 2:
        raise InputError("--system-desc", "one file, or one for each build", f"{len(descriptors)}", "two of them")
    return old, new
