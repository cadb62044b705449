"""`opscope publish`: run folders into the results database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from opscope.base.finite_number import FiniteNumber


@click.command(short_help="Write runs to a results database.")
@click.argument("run_dirs", nargs=-1, metavar="[RUN_DIR]...", type=click.Path(path_type=Path))
@click.option(
    "--to", "url", default=None, help="Database URL (SQLite or PostgreSQL); default: .opscope/opscope.sqlite."
)
@click.option(
    "--night",
    "night_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
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
    code is 2. Without RUN_DIR, only the runs in the spool are delivered.
    """
    import json

    from opscope.base.live import progress
    from opscope.base.visible_text import counted_each
    from opscope.harness.record.errors import InputError, refusal
    from opscope.reports.database.database import DatabaseAwayError, parse_url, shown
    from opscope.reports.database.files import default_url
    from opscope.reports.publish import benchmarks, spool
    from opscope.reports.records.night_record import join, read_night

    if shard and night_file is None:
        raise InputError("--shard", "--night FILE, the night of the shard", "none", "--night night.json")
    if night_file is not None and not run_dirs:
        raise InputError(
            "--night", "runs that belong to the night", "no RUN_DIR", "opscope publish RUN_DIR --night FILE"
        )
    target = url or default_url()
    counts: dict[str, Any] = {}
    from_spool: list[str] = []
    away: DatabaseAwayError | None = None
    try:
        if not run_dirs:
            progress.step("runs that waited")
            from_spool = spool.drain(target, Path.cwd(), seconds=seconds)
            if late := benchmarks.drain(target, Path.cwd()):
                from_spool.append(f"{late} benchmark{'s' if late > 1 else ''}")
        for run_dir in progress.each(run_dirs, "run", len(run_dirs)):
            if night_file is not None:
                join(run_dir, read_night(night_file), shard)
            try:
                counts[str(run_dir)], delivered_late = spool.deliver(run_dir, target, Path.cwd(), seconds=seconds)
                from_spool += delivered_late
            except DatabaseAwayError as error:
                away = error
    except DatabaseAwayError as error:
        away = error
    place = shown(parse_url(target))
    if as_json:
        rows = next(iter(counts.values())) if len(counts) == 1 else None
        click.echo(json.dumps({"database": place, "rows": rows, "runs": counts, "from_spool": from_spool}))
    else:
        for name in from_spool:
            click.echo(f"published {name} from the spool to {place}")
        for run_dir, rows_of_tables in counts.items():
            click.echo(f"published {run_dir} to {place}: {counted_each(rows_of_tables)}")
        if not run_dirs and not from_spool and away is None:
            click.echo(f"no run in the spool is waiting for {place}")
    if away is not None:
        click.echo(refusal("opscope publish", away), err=True)
        raise SystemExit(away.exit_code)
