"""The verbs of this room: `opscope doctor`, `models`, `config`, `show`, `clean`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.errors import InputError
from harness.settings import BY_NAME, SETTINGS, Resolved, project_folder, resolve

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _print_json(value: Any) -> None:
    """Prints `value` for another program."""
    click.echo(json.dumps(value, indent=2))


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows below their heads, in columns as wide as they must be."""
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _settings() -> Resolved:
    """The settings that a run started here would have without options of its own."""
    return resolve({}, project_folder(Path.cwd()))


@click.command()
@JSON
def doctor(as_json: bool) -> None:
    """Say what works on this machine.

    What does not comes with the line that makes it work. Exit code 1 where a run with default options cannot work.
    """
    from harness import doctor as examination

    findings = examination.examine(_settings(), Path.cwd())
    if as_json:
        _print_json(examination.as_json(findings))
    else:
        width = max(len(f.name) for f in findings)
        for finding in findings:
            mark = click.style("ok  ", fg="green") if finding.usable else click.style("no  ", fg="red")
            click.echo(f"{mark}{finding.kind:<10} {finding.name:<{width}}  {finding.found}")
            if finding.remedy:
                click.echo(f"{'':<15} {'':<{width}}  try: {finding.remedy}")
    if not examination.in_order(findings):
        raise SystemExit(1)


@click.command()
@click.option("--count", is_flag=True, help="Export all models here and write their sizes into the table (minutes).")
@JSON
def models(count: bool, as_json: bool) -> None:
    """List the models that --model knows: framework, family, size, parameters, ops, unique ops.

    A giant is at its full size though its weights fit in no memory: each op gets random inputs of its own, and `--model
    all` leaves it out.
    """
    from harness import zoo

    if count:
        from harness import export_folder
        from models import registry

        settings = _settings()
        every = [registry.get(name) for name in registry.names()]
        cache = export_folder.cache_dir(settings["cache_dir"])
        zoo.write(zoo.recount(every, cache, settings["max_cache"], lambda line: click.echo(line, err=True)))
    listed = zoo.listing()
    if as_json:
        _print_json(listed)
        return

    def number(value: int | None) -> str:
        return "-" if value is None else f"{value:,}"

    _print_table(
        ("name", "framework", "family", "size", "parameters", "ops", "unique"),
        [
            [e["name"], e["framework"], e["family"], "giant" if e["giant"] else e["size"],
             *(number(e[key]) for key in ("parameters", "ops", "unique_ops"))]
            for e in listed
        ],
    )  # fmt: skip
    for framework in sorted({e["framework"] for e in listed if e["missing"]}):
        missing = next(e["missing"] for e in listed if e["framework"] == framework)
        click.echo(f"skipped here: {framework} ({missing})")


@click.command()
@JSON
def config(as_json: bool) -> None:
    """Print every setting and where its value comes from."""
    settings = _settings()
    values = settings.masked()
    if as_json:
        _print_json({s.name: {"value": values[s.name], "source": settings.sources[s.name]} for s in SETTINGS})
        return
    shown = {name: "-" if value is None else str(value) for name, value in values.items()}
    _print_table(("setting", "value", "from"), [[s.name, shown[s.name], settings.sources[s.name]] for s in SETTINGS])


@click.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
@JSON
def show(run_dir: Path | None, as_json: bool) -> None:
    """Print the summary of a stored run.

    RUN_DIR defaults to the newest run below .opscope/runs.
    """
    from harness import closing, store, summary

    run_dir = run_dir or store.newest_run()
    if run_dir is None:
        raise InputError("opscope show", "a run folder", "no run below .opscope/runs", "opscope show RUN_DIR")
    page = closing.stored_page(run_dir)
    if as_json:
        _print_json(summary.as_json(page))
        return
    from rich.console import Console

    summary.show(page, Console(highlight=False, emoji=False))


@click.command(short_help="Remove old runs and the longest unused caches.")
@click.option("--keep-runs", default=30, show_default=True, type=click.IntRange(min=0), metavar="N",
              help="Leave the N newest run folders below .opscope/runs.")  # fmt: skip
@click.option("--max-cache", metavar="SIZE", help="Leave at most so much in the caches; default: the setting (20G).")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def clean(keep_runs: int, max_cache: str | None, dry_run: bool) -> None:
    """Remove old run folders and the longest unused exports, executables, results and scripts.

    What a live run uses stays, and what was used within the last minute.
    """
    from harness import export_folder, store, upkeep

    settings = _settings()
    limit = settings["max_cache"] if max_cache is None else BY_NAME["max_cache"].read("--max-cache", max_cache)
    cache = export_folder.cache_dir(settings["cache_dir"])
    runs, cached = upkeep.old_runs(store.runs_root(), 0), upkeep.cached(cache)
    take = upkeep.unclaimed if dry_run else upkeep.remove
    old = runs[: max(0, len(runs) - keep_runs)]
    gone = [run for run in old if take(run)]
    in_use = len(old) - len(gone)
    gone += upkeep.shrink(cached, limit, take)
    click.echo(upkeep.table([*runs, *cached], gone, "would go" if dry_run else "gone"))
    if in_use:
        click.echo(f"{in_use} old runs stay: in use, or on a disk that refuses")
    left = sum(thing.size for thing in cached) - sum(thing.size for thing in gone if thing.kind in upkeep.KINDS)
    if left > limit:
        click.echo(f"{upkeep.readable(left)} of caches stay: in use, or used within the last minute")
    click.echo(f"caches in {cache}, runs in {store.runs_root()}")
