"""`opscope limitations`: lists the expected failures, checks them against a run, and proposes their update."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path

import click

from opscope.base.file_names import resolved
from opscope.base.page import Page
from opscope.base.visible_text import counted
from opscope.harness.limitations import import_rows, limitation_file, limitation_notes, limitation_update
from opscope.harness.limitations.limitation_file import LimitationFile
from opscope.harness.limitations.limitations import KINDS, Limitation, NewRows, now
from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.settings.settings import project_folder, resolve

FILE = click.option(
    "--limitations",
    "user_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Your file of limitations; default: the setting limitations.",
)
DEFAULT = "limitations.yaml"
"""Where `update` puts the first rows of a user that has no file yet."""


@click.group(short_help="List, check and update the expected failures.")
def limitations() -> None:
    """List, check and update the expected failures."""


@limitations.command("list")
@FILE
@click.option("--backend", help="Only rows of this backend.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_rows(user_file: Path | None, backend: str | None, as_json: bool) -> None:
    """List the expected failures, yours first."""
    rows = [row for row in limitation_file.all_rows(_limitations_file(user_file)) if backend in (None, row.backend)]
    if as_json:
        from opscope.wire import answer, limitations_list

        answer.print_answer([limitations_list.Limitation(**vars(row)) for row in rows], limitations_list.PRINTS)
        return
    page = Page()
    for row in rows:
        page.prose(f"{row.backend} {row.stage}, {row.kind}: {row.reason}")
        page.prose(scope(row), indent=2)
        dated = [f"since {row.since}"] * bool(row.since) + [f"expires {row.expires}"] * bool(row.expires)
        page.prose(", ".join([*filter(None, [row.link]), *dated, row.where]), indent=2)
    page.line(f"{len(rows)} row{'' if len(rows) == 1 else 's'}")


@limitations.command()
@click.argument("run_dir", required=False, type=click.Path(path_type=Path))
@FILE
def check(run_dir: Path | None, user_file: Path | None) -> None:
    """Check the files of limitations; with RUN_DIR, also compare them with the results of that run.

    Exit code 1 if a row has expired, names no op of the run, or no longer describes how its ops fail. The project's own
    rows may name ops that only a full sweep has. Rows of stage `import` are held to the run's imports.
    """
    rows = limitation_file.all_rows(_limitations_file(user_file))
    lines = [f"{row.where}: expired on {row.expires}; renew or delete it" for row in rows if row.expired(now())]
    if run_dir is not None:
        run = store.load_run(run_dir)
        rows_of_run = limitation_notes.rows_with_ops(run, rows)
        lines += limitation_notes.unmatched(run, rows_of_run)
        lines += [_outdated_line(row) for row in rows_of_run if row.passed or (row.named and not row.excused)]
        lines += import_rows.outdated(rows, run.header.imports)
    for line in lines:
        click.echo(line)
    click.echo(f"{counted(len(rows), 'row')}, {len(lines)} to look at")
    if lines:
        raise SystemExit(1)


@limitations.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@FILE
@click.option("--kind", default="notyet", show_default=True, type=click.Choice(KINDS), help="Kind of the new rows.")
@click.option(
    "--expires", default="90d", show_default=True, metavar="WHEN", help="A date, a number of days (90d), or `never`."
)
@click.option("--link", default="", metavar="URL", help="Link to the issue that the new rows belong to.")
@click.option("--write", "writes", is_flag=True, help="Change the files; without it, only the diff is printed.")
def update(run_dir: Path, user_file: Path | None, kind: str, expires: str, link: str, writes: bool) -> None:
    """Print a diff that brings the files of limitations up to date with a run.

    New failures, also of imports, get rows in your file (--limitations, the setting, or ./limitations.yaml) that match
    as little else as possible. Rows whose ops now pass, or fail in another way, are removed.
    """
    target = _limitations_file(user_file) or Path(DEFAULT)
    files = {target: limitation_file.read(target) if target.exists() else LimitationFile(target)}
    if resolved(target) != limitation_file.OWN:
        files[limitation_file.OWN] = limitation_file.read(limitation_file.OWN)
    run = store.load_run(run_dir)
    rows = [row for file in files.values() for row in file.rows]
    proposal = limitation_update.propose(
        run.tests,
        limitation_notes.rows_with_ops(run, rows),
        NewRows(kind, now(), _until(expires), link),
        run.header.imports,
        rows,
    )
    for path, file in files.items():
        text = limitation_update.patched(file, proposal, takes_new=path == target)
        change = limitation_update.diff(path, file.text, text) if file.text or proposal.new else ""
        click.echo(change, nl=False)
        if writes and change:
            limitation_update.write(path, text)
    for remark in proposal.remarks:
        click.echo(remark, err=True)
    removed = sum(row is None for row in proposal.changes.values())
    done = "written" if writes else "use --write to change the files"
    new = f"{len(proposal.new)} new {'row' if len(proposal.new) == 1 else 'rows'}"
    click.echo(f"{new}, {removed} removed, {len(proposal.changes) - removed} narrowed; {done}", err=True)
    if proposal.new and _limitations_file(user_file) is None:
        click.echo(f'to use the file in runs, add to pyproject.toml: [tool.opscope] limitations = "{target}"', err=True)


def scope(row: Limitation) -> str:
    """What a row names, in one line."""
    parts = [", ".join(row.op)]
    for word, values in (
        ("of", row.op_ids),
        ("types", row.types),
        ("families", sorted(row.families)),
        ("but", row.but),
        ("formats", tuple(name or "(none forced)" for name in row.data_formats)),
        ("with", tuple(f"{name} = {pattern}" for name, pattern in row.params.items())),
    ):
        parts += [f"{word} {', '.join(values)}"] * bool(values)
    parts += [f"on {row.arch}"] * (row.arch != "*")
    parts += ["some of them"] * (not row.strict)
    return "; ".join(parts)


def _outdated_line(row: limitation_notes.Row) -> str:
    """The line of a row that no longer holds."""
    reason = f"{len(row.passed)} pass" if row.passed else f"{len(row.other) or row.named} fail in another way"
    named = counted(row.named, "op")
    return f"{row.limitation.where}: of the {named} that this row names, {reason}; try opscope limitations update"


def _limitations_file(user_file: Path | None) -> Path | None:
    """The user's file of limitations: `user_file`, else the one in the settings."""
    if user_file is not None:
        return user_file
    folder = project_folder(Path.cwd())
    settings = resolve({}, folder)
    name = settings["limitations"]
    return None if name is None else (folder if "pyproject" in settings.sources["limitations"] else Path.cwd()) / name


def _until(text: str) -> date | None:
    """The day that `--expires` names."""
    if text == "never":
        return None
    days = re.fullmatch(r"(\d+)d", text)
    try:
        until = now() + timedelta(days=int(days[1])) if days else date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise InputError("--expires", "a date, a number of days or `never`", repr(text), "90d") from None
    if until <= now():
        raise InputError("--expires", "a day to come", str(until), "90d")
    return until
