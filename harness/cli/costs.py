"""`opscope costs`: what the ops of runs took, so that the next shares are equal in time."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="What the ops of runs took, for --shard-costs.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
def costs(runs: tuple[Path, ...]) -> None:
    """Print what the ops of run folders took, as JSON for `--shard-costs`; of an op in several runs the last counts.

    Kept beside the project and given to every job, the file makes shares equal in time.
    """
    from opscope.harness.record import store
    from opscope.harness.scale import costs as figures

    found: dict[str, float] = {}
    for run in runs:
        found |= figures.of_tests(store.load_run(run).tests)
    click.echo(figures.text(found), nl=False)
