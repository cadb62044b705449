"""`opscope costs` prints the times of ops, which make the next shares equal."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Print the time of each op, for --shard-costs.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
def costs(runs: tuple[Path, ...]) -> None:
    """Print the time that each op took in the given runs, as JSON for --shard-costs.

    If an op is in several runs, the last one counts. Keep the file with the project and pass it to every job, so that
    all shares take the same time.
    """
    from opscope.harness.record import store
    from opscope.harness.scale import costs as figures

    seconds: dict[str, float] = {}
    for run in runs:
        seconds |= figures.of_tests(store.load_run(run).tests)
    click.echo(figures.text(seconds), nl=False)
