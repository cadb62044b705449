"""`opscope publish`: a run folder into the results database."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--to", "url", default=None, help="Database URL (SQLite or PostgreSQL); .opscope/opscope.sqlite here.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def publish(run_dir: Path, url: str | None, as_json: bool) -> None:
    """Write the run in RUN_DIR to a database. Publishing it again changes nothing."""
    import json

    from harness.errors import InputError
    from reports.database import default_url, parse_url, shown
    from reports.publish import publish as write

    target = url or default_url()
    try:
        counts = write(run_dir, target)
    except InputError as error:
        click.echo(error, err=True)
        raise SystemExit(2) from None
    place = shown(parse_url(target))
    if as_json:
        click.echo(json.dumps({"database": place, "rows": counts}))
    else:
        told = ", ".join(f"{count} {table}" for table, count in counts.items())
        click.echo(f"published {run_dir} to {place}: {told}")
