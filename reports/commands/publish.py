"""`opscope publish`: run folders into the results database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opscope.base.finite_number import FiniteNumber
from opscope.base.path_option import path_option

if TYPE_CHECKING:
    from opscope.reports.publish.spool import Delivery


@click.command(short_help="Write runs to a results database.")
@click.argument("run_dirs", nargs=-1, metavar="[RUN_DIR]...", type=click.Path(path_type=Path))
@click.option(
    "--to", "url", default=None, help="Database URL (SQLite or PostgreSQL); default: .opscope/opscope.sqlite."
)
@path_option(
    "--night",
    "night_file",
    help="Add the runs to the night that FILE describes, as night.json in the run folders of a night does.",
)
@click.option("--shard", type=click.IntRange(0), default=0, help="Number of the shard that the runs belong to.")
@click.option(
    "--publish-timeout",
    "seconds",
    type=FiniteNumber(min=0, min_open=True),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of one run, in seconds; beyond it, the run is kept in the spool.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def publish(
    run_dirs: tuple[Path, ...], url: str | None, night_file: Path | None, shard: int, seconds: float, as_json: bool
) -> None:
    """Write the runs in RUN_DIR to a database. Publishing a run again changes nothing.

    If the database cannot be reached, the run is kept in .opscope/spool and the exit code is 1; the next publish to
    that database delivers it. If the database refuses the user or the password, the run is kept as well and the exit
    code is 2. A run that the database refuses for another reason is set aside below .opscope/spool, which stops no
    other run and is said each time; the exit code is 2. Without RUN_DIR, the runs in the spool are delivered, and those
    that were refused are tried again.
    """
    from opscope.base.visible_text import counted_each, visible
    from opscope.harness.record.errors import InputError, refusal
    from opscope.reports.database.database import DatabaseAwayError, parse_url, shown
    from opscope.reports.database.files import default_url
    from opscope.reports.publish import benchmarks, spool

    if shard and night_file is None:
        raise InputError("--shard", "--night FILE, the night of the shard", "none", "--night night.json")
    if night_file is not None and not run_dirs:
        raise InputError(
            "--night", "runs that belong to the night", "no RUN_DIR", "opscope publish RUN_DIR --night FILE"
        )
    target, root = url or default_url(), Path.cwd()
    deliveries = _deliver(run_dirs, target, root, night_file, shard, seconds)
    counts = {
        str(run_dir): dict(delivery.rows)
        for run_dir, delivery in zip(run_dirs, deliveries, strict=False)
        if delivery.rows is not None
    }
    problems = [problem for delivery in deliveries for problem in delivery.problems]
    from_spool = [name for delivery in deliveries for name in delivery.from_spool]
    if not run_dirs and not any(isinstance(problem, DatabaseAwayError) for problem in problems):
        try:
            if late := benchmarks.drain(target, root):
                from_spool.append(f"{late} benchmark{'s' if late > 1 else ''}")
        except InputError as error:
            problems.append(error)
    place = shown(parse_url(target))
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.publish import Published

        rows = next(iter(counts.values())) if len(counts) == 1 else None
        aside = [str(each.folder) for each in spool.refused(target, root)]
        found = Published(database=place, rows=rows, runs=counts, from_spool=tuple(from_spool), refused=tuple(aside))
        print_answer(found, indent=None)
    else:
        for name in from_spool:
            click.echo(f"published {name} from the spool to {place}")
        for run_dir, rows_of_tables in counts.items():
            click.echo(f"published {run_dir} to {place}: {counted_each(rows_of_tables)}")
        if not run_dirs and not from_spool and not problems:
            click.echo(f"no run in the spool is waiting for {place}")
    for line in (each.line for each in deliveries[0].earlier):
        click.echo(f"opscope publish: {visible(line)}", err=True)
    for problem in problems:
        click.echo(refusal("opscope publish", problem), err=True)
    if problems:
        raise SystemExit(spool.exit_code(problems))


def _deliver(
    run_dirs: tuple[Path, ...], target: str, root: Path, night_file: Path | None, shard: int, seconds: float
) -> list[Delivery]:
    """What became of each run, or of all in the spool where none is named."""
    from opscope.base.live import progress
    from opscope.reports.publish import spool
    from opscope.reports.records.night_record import join, read_night

    if not run_dirs:
        progress.step("runs that waited")
        return [spool.drain(target, root, seconds=seconds, again=True)]
    deliveries = []
    for run_dir in progress.each(run_dirs, "run", len(run_dirs)):
        if night_file is not None:
            join(run_dir, read_night(night_file), shard)
        deliveries.append(spool.deliver(run_dir, target, root, seconds=seconds))
    return deliveries
