"""`opscope costs`: what ops took, as the file by which shares of a sweep are made equal."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="What the ops of runs took, for --shard-costs.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
def costs(runs: tuple[Path, ...]) -> None:
    """Print what the ops of run folders took, as JSON for `--shard-costs`; of an op in several runs the last counts.

    Kept beside the project and given to every job, the file makes shares equal in time.
    """
    from harness import store
    from harness.scale import costs as figures

    found: dict[str, float] = {}
    for run in runs:
        found |= figures.of_tests(store.load_run(run).tests)
    click.echo(figures.text(found), nl=False)
