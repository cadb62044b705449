"""`opscope merge`: run folders of `--shard` joined to one, with its summary and its page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Join the run folders of --shard.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--into", required=True, type=click.Path(path_type=Path), metavar="DIR", help="The new run folder.")
@click.option("--partial", is_flag=True, help="Take what there is: ops of missing shards are not_run.")
@click.option("--publish", "url", metavar="URL", help="Write the joined run to this database too.")
def merge(runs: tuple[Path, ...], into: Path, partial: bool, url: str | None) -> None:
    """Join the run folders of all shares of a sweep to the one that a run without --shard would have left.

    Exit code 1 where an op fails that no limitation names, as the whole run would have ended.
    """
    from rich.console import Console

    from harness import closing, summary
    from harness.scale.merge import merge as join
    from reports.database import default_url, parse_url, shown, usable_url
    from reports.html import write_report
    from reports.publish import publish

    if url is not None:
        usable_url(url, "--publish")
    into = into.absolute()
    join(runs, into, partial=partial)
    write_report(into, url or default_url())
    if url is not None:
        publish(into, url, "--publish")
    page = closing.stored_page(into)
    summary.show(page, Console(highlight=False, emoji=False))
    click.echo(f"published to {shown(parse_url(url))}" if url else f"publish it: opscope publish {into}")
    if any(test.fails_run for test in page.tests):
        raise SystemExit(1)
