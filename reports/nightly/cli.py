"""`opscope nightly`: runs a night, or one shard of it, or joins what shards on other machines left."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opscope.base.path_option import path_option
from opscope.harness.record.errors import InputError

if TYPE_CHECKING:
    from opscope.reports.nightly.night import NightResult
    from opscope.reports.nightly.progress import Display
    from opscope.reports.nightly.running import SweepResult


@click.command(short_help="Run, publish, compare and report a night.")
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option(
    "--backend",
    "backends",
    metavar="NAME,...",
    help="Run these backends, each in a sweep of its own, in place of those in CONFIG.",
)
@click.option("--shard", metavar="I/N", help="Run only this shard; a later --join collects its runs.")
@path_option(
    "--join",
    "places",
    multiple=True,
    metavar="DIR",
    help="Run nothing; publish the runs of all shards that CI collected in DIR.",
)
@click.option("--started", metavar="TIME", help="Start of the night (ISO 8601), the same in all of its jobs.")
@click.option("--revision", metavar="COMMIT", help="Commit that is tested; default: the CI job's, else the checkout's.")
@click.option("--branch", metavar="NAME", help="Branch that is tested; default: as for --revision.")
@click.option("--new", is_flag=True, help="Start a new night even if the last one was interrupted.")
@click.option(
    "--database", "--db", "database", metavar="URL", help="Database to publish to; default: the one in CONFIG."
)
@path_option(
    "--summary", "summary_file", help="Also append the summary to FILE; default: the summary of the GitHub job."
)
@click.option(
    "--init",
    is_flag=True,
    help="Write ci/nightly.yaml and files for the CI of GitHub and GitLab, none over one that is there; run nothing.",
)
@click.option("--dry-run", is_flag=True, help="Only check CONFIG and print the commands of its sweeps.")
def nightly(
    config: Path | None,
    backends: str | None,
    shard: str | None,
    places: tuple[Path, ...],
    started: str | None,
    revision: str | None,
    branch: str | None,
    new: bool,
    database: str | None,
    summary_file: Path | None,
    init: bool,
    dry_run: bool,
) -> None:
    """Run the night that CONFIG (default: ci/nightly.yaml) describes, publish it, compare it, and report it.

    A night that was killed continues where it stopped. Exit code 1 if the policy of CONFIG fails the night (by default:
    no data, or an op that is NEW, REASON-CHANGED or PCC-DROP) or a run is neither in the database nor kept, 2 for bad
    input, 130 if it was interrupted.
    """
    from opscope.harness.record.run_folders import NIGHT_FILE
    from opscope.reports.database.owners import rules_here
    from opscope.reports.nightly import night_folder, running
    from opscope.reports.nightly.config import read_config, with_backends, with_commit
    from opscope.reports.nightly.night import add_to_page_of_job, deliver
    from opscope.reports.nightly.progress import Display
    from opscope.reports.nightly.sweeps import sweeps

    root = Path.cwd()
    if init:
        _init(root, config)
        return
    settings = read_config(config or NIGHT_FILE)
    if backends is not None:
        settings = with_backends(settings, backends)
    settings = with_commit(settings, revision, branch)
    number = _number(shard, settings.shards)
    if shard is not None and places:
        raise InputError("--shard", "--shard or --join", "both", "--join, after all shards")
    start = _time(started)
    rules = rules_here(None, settings.owners, root)
    all_sweeps = sweeps(settings, number)
    if dry_run:
        _print_commands(settings, all_sweeps, root, start)
        return
    url = "" if number else settings.database_url(root, database)
    with running.ended_by_signal("interrupted; run the same command again to continue this night"):
        if places:
            night, runs = night_folder.joined(list(places), root, settings, start)
            result = deliver(settings, night, runs, url, root, rules, say=Display(0).line)
        else:
            night = night_folder.begin(settings, root, start, new)
            display = Display(len(all_sweeps))
            with _alone(night_folder.folder_of(root, night)), display:
                ended = running.run(all_sweeps, settings, night, root, display.watch, display.ended)
            if number:
                _end_of_shard(ended, display)
            runs = night_folder.runs_of(root, night)
            result = deliver(settings, night, runs, url, root, rules, ended, display.line)
    _print(result, add_to_page_of_job(result.summary, summary_file))
    if result.verdict.fails:
        raise SystemExit(1)


def _init(root: Path, config: Path | None) -> None:
    """Writes the first files of a night."""
    from opscope.reports.nightly import first_files

    if config is not None:
        raise InputError("--init", "no other file than ci/nightly.yaml", str(config), "opscope nightly --init")
    for line in first_files.write(root):
        click.echo(line)
    click.echo("next      edit ci/nightly.yaml, then: opscope nightly --dry-run; opscope nightly; opscope gate")


def _end_of_shard(ended: Sequence[SweepResult], display: Display) -> None:
    """Names the runs of a shard, which others publish."""
    for each in ended:
        display.line(f"run       {each.run_dir}" if each.has_run else f"no run    {each.sweep.label}")
    raise SystemExit(0 if all(each.has_run for each in ended) else 1)


def _print(result: NightResult, problem: str) -> None:
    """What the night comes to, and where its summary and its results are."""
    from opscope.base.page import Page

    problems = (f"{item.kind.replace('_', ' ')}: {item.text}" for item in result.verdict.problems)
    page = Page()
    for sentence in filter(None, (*str(result.said).splitlines(), problem, *problems)):
        page.prose(sentence)
    page.line(f"summary   {result.path}")
    page.line(f"database  {result.delivered.line}")


def _number(shard: str | None, shards: int) -> int | None:
    """The shard that `--shard I/N` names. Raises InputError if the night has another number of shards."""
    from opscope.harness.settings.settings import BY_NAME

    if shard is None:
        return None
    index, count = (int(word) for word in BY_NAME["shard"].read("--shard", shard).split("/"))
    if count != shards:
        raise InputError("--shard", f"a shard of {shards}, as the configuration says", shard, f"1/{shards}")
    return index


def _time(started: str | None) -> datetime | None:
    """Parses a time with its zone. Raises InputError without a zone, because machines would read it differently."""
    if started is None:
        return None
    try:
        at = datetime.fromisoformat(started)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise InputError("--started", "a time with its zone", f"`{started}`", "2026-11-20T02:00:00+00:00")
    return at


def _print_commands(config: object, all_sweeps: list, root: Path, at: datetime | None) -> None:  # type: ignore[type-arg]
    """Prints the command of each sweep."""
    import shlex
    from datetime import UTC

    from opscope.base.visible_text import counted
    from opscope.reports.nightly.config import Config
    from opscope.reports.nightly.night_folder import record_of
    from opscope.reports.nightly.sweeps import first_command

    assert isinstance(config, Config)
    night = record_of(config, (at or datetime.now(UTC)).replace(microsecond=0))
    budget = None if config.budget is None else config.budget / len(all_sweeps)
    for sweep in all_sweeps:
        click.echo(shlex.join(first_command(sweep, config, sweep.run_dir(root, night.night_id), budget)))
    of_models = f"{counted(len(all_sweeps), 'sweep')} of {counted(len(night.models), 'model')}"
    click.echo(f"{of_models}: {', '.join(night.models)}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the night. Raises InputError if another process runs it."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(str(folder), "a night that is not running", "one that another process runs", "--new") from None
    try:
        yield
    finally:
        os.close(descriptor)
