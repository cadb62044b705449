"""The commands `opscope doctor`, `models`, `show` and `clean`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from opscope.base.page import Page
from opscope.base.plugins import plugins
from opscope.base.terminal import page_console
from opscope.harness.record.errors import InputError
from opscope.harness.settings.settings import BY_NAME, Resolved, project_folder, resolve

KEPT_FILES = 5
"""So many of the files that a kept verdict rests on are named."""
_OP_ID = re.compile("[0-9a-f]{16}")
SHOWS = "opscope.shows"
"""Entry points that show ops, models and runs by name: `(name, database, team, owners file, as JSON) -> None`."""
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _settings() -> Resolved:
    """The settings that a run started here would have without options of its own."""
    return resolve({}, project_folder(Path.cwd()))


@click.command()
@click.option("--backend", metavar="NAME|FILE", help="Check this backend alone: load it, open it, and close it again.")
@JSON
def doctor(backend: str | None, as_json: bool) -> None:
    """Check what works on this machine.

    For whatever does not work, print the command that fixes it. Exit code 1 if a run with default options cannot work,
    or with --backend, if that backend cannot.
    """
    from opscope.harness.cli import doctor as examination

    settings = _settings()
    if backend is None:
        findings = examination.examine(settings, Path.cwd())
    else:
        findings = examination.examine_backend(settings, backend)
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.doctor import Doctor

        print_answer(Doctor(in_order=examination.in_order(findings), findings=tuple(findings)))
    else:
        page = Page()
        examination.show(findings, page)
        page.hanging([("next      ", "bold")], [examination.next_step(findings, backend)])
    if not examination.in_order(findings):
        raise SystemExit(1)


@click.command()
@click.option("--count", is_flag=True, help="Export all models and write their sizes into the table; takes minutes.")
@JSON
def models(count: bool, as_json: bool) -> None:
    """List the models with framework, family, size, parameters, ops and unique ops.

    A giant keeps its full size although its weights do not fit in memory: each of its ops runs on random inputs.
    `--model all` leaves giants out.
    """
    from opscope.harness.prepare import zoo
    from opscope.models.frontends import install

    if count:
        from opscope.harness.cache import export_folder
        from opscope.models import registry

        settings = _settings()
        every = [registry.get(name) for name in registry.names()]
        cache = export_folder.cache_dir(settings["cache_dir"])
        zoo.write(zoo.recount(every, cache, settings["max_cache"], lambda line: click.echo(line, err=True)))
    listed = zoo.listing()
    if as_json:
        from opscope.wire import answer
        from opscope.wire import models as wire

        answer.print_answer(listed, wire.PRINTS)
        return

    def number(value: int | None) -> str:
        return "-" if value is None else f"{value:,}"

    Page().table(
        [
            ("name", ""),
            ("framework", ""),
            ("family", ""),
            ("size", ""),
            ("parameters", "right"),
            ("ops", "right"),
            ("unique", "right"),
        ],
        [
            [
                e.name,
                e.framework,
                e.family,
                "giant" if e.giant else e.size,
                *map(number, (e.parameters, e.ops, e.unique_ops)),
            ]
            for e in listed
        ],
        spare=("size", "parameters"),
    )
    skipped = [e for e in listed if e.missing_packages]
    for framework in sorted({e.framework for e in skipped}):
        of_it = [e for e in skipped if e.framework == framework]
        packages = ", ".join(dict.fromkeys(package for e in of_it for package in e.missing_packages))
        click.echo(f"skipped here: {len(of_it)} of {framework} ({packages} not installed; try {install(framework)})")


@click.command(short_help="Show a run, the history of an op, or the readiness of a model.")
@click.argument("what", metavar="[RUN|OP|MODEL]", required=False)
@click.option("--db", "url", metavar="URL", help="Results database; default: .opscope/opscope.sqlite.")
@click.option("--owner", "team", metavar="TEAM", help="Only failures that TEAM owns (ci/owners.yaml).")
@click.option(
    "--owners",
    "owners_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rules of owners; default: ci/owners.yaml, or else the rules in the database.",
)
@click.option(
    "--alone",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Compare each op's verdict in its model with its verdict alone, in this run.",
)
@JSON
def show(
    what: str | None, url: str | None, team: str | None, owners_file: Path | None, alone: Path | None, as_json: bool
) -> None:
    """Show a run, the history of an op, or the readiness of a model.

    RUN is a run folder (default: the newest in .opscope/runs) or the id of a run; its summary is printed. For an OP,
    named by its id, print its result, PCC and cycles night by night, the models and places that contain it, the
    command that runs it again, and what its cached verdicts rest on. For a MODEL, print its stages, the ops that block
    it, and how both changed. Anything that is not a folder is looked up in the database. --owner always reads the
    database.
    """
    from opscope.harness.page import summary
    from opscope.harness.record import run_folders, store
    from opscope.harness.run import finish_run

    run_dir = run_folders.newest_run() if what is None else _run_folder(what)
    if what is None and run_dir is None:
        raise InputError("opscope show", "a run folder", "no run in .opscope/runs", "opscope show RUN_DIR")
    if run_dir is None or team is not None:
        for point in plugins(SHOWS):
            name = str(what) if run_dir is None else store.read_run(run_dir).run_id
            point.load()(name, url, team, owners_file, as_json)
        if run_dir is None and not as_json and _OP_ID.fullmatch(str(what)):
            _show_kept(str(what))
        return
    page = finish_run.stored_page(run_dir, alone)
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(summary.answer(page))
        return

    summary.show(page, page_console())


def _show_kept(op_id: str) -> None:
    """What the verdicts on an op rest on that this machine keeps, and the first thing of it that has changed; with
    classes of inputs, those that are alike in a line, each with its worst element."""
    from opscope.harness.cache import export_folder
    from opscope.harness.climb import result_cache

    classes: dict[str, list[str]] = {}
    for basis in result_cache.bases(export_folder.cache_dir(_settings()["cache_dir"]), op_id):
        counts = ", ".join(f"{count} {kind}" for kind, count in basis.counts.items())
        own = f", among them {', '.join(basis.own[:KEPT_FILES])}" if basis.own else ""
        holds = f"{basis.changed} changed" if basis.changed else "all as it was"
        line = f"{basis.status} on {basis.backend} is kept, rests on {counts}{own}: {holds}"
        classes.setdefault(line, []).append(basis.inputs)
    for line, inputs in classes.items():
        named = ", ".join(dict.fromkeys(filter(None, inputs)))
        Page().prose(f"{line}; largest error over its limit with inputs: {named}" if named else line, "dim")


def _run_folder(name: str) -> Path | None:
    """The run folder that `name` is, as a path or below .opscope/runs; another path is refused later."""
    from opscope.harness.record import run_folders, store

    as_path = Path(name)
    folders = (as_path, run_folders.runs_root() / name)
    return next((folder for folder in folders if store.has_run(folder)), as_path if as_path.is_dir() else None)


@click.command(short_help="Remove old runs, and caches that have been unused the longest.")
@click.option(
    "--keep-runs",
    default=30,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the N newest run folders in .opscope/runs.",
)
@click.option(
    "--max-cache",
    metavar="SIZE",
    help="Shrink the caches to this size, such as 5GiB; default: the setting max_cache (20G).",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
def clean(keep_runs: int, max_cache: str | None, dry_run: bool) -> None:
    """Remove old run folders, and the exports, executables, releases, results and scripts, the longest unused first.

    Whatever a running run uses stays, and so does anything that was used within the last minute.
    """
    from opscope.harness.cache import export_folder, upkeep
    from opscope.harness.record import run_folders

    settings = _settings()
    limit = settings["max_cache"] if max_cache is None else BY_NAME["max_cache"].read("--max-cache", max_cache)
    cache = export_folder.cache_dir(settings["cache_dir"])
    runs, cached = upkeep.old_runs(run_folders.runs_root(), 0), upkeep.cached(cache)
    take = upkeep.unclaimed if dry_run else upkeep.remove
    old = runs[: max(0, len(runs) - keep_runs)]
    removed = [run for run in old if take(run)]
    in_use = len(old) - len(removed)
    removed += upkeep.shrink(cached, limit, take)
    click.echo(upkeep.table([*runs, *cached], removed, "to remove" if dry_run else "removed"))
    if in_use:
        click.echo(f"{in_use} old runs stay: they are in use, or the disk refuses to remove them")
    remaining = sum(thing.size for thing in cached) - sum(thing.size for thing in removed if thing.kind in upkeep.KINDS)
    if remaining > limit:
        click.echo(f"{upkeep.readable(remaining)} of caches stay: they are in use, or were used within the last minute")
    click.echo(f"caches in {cache}, runs in {run_folders.runs_root()}")
