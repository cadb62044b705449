"""The commands `opscope backend new` and `opscope backend check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opscope.base.page import Page

if TYPE_CHECKING:
    from opscope.harness.cli.backend_suite import Check

STYLES = {"ok": "green", "note": "yellow", "fails": "bold red"}


@click.group()
def backend() -> None:
    """Bring a compiler of your own: a file to begin with, and a suite that it has to pass."""


@backend.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--stage",
    "stages",
    multiple=True,
    metavar="NAME=COMMAND",
    help="A stage of a YAML file and its command line, with {input} and {output}; may be given several times.",
)
def new(file: Path, stages: tuple[str, ...]) -> None:
    """Write a backend to begin with: FILE.yaml for a compiler with a command line, FILE.py for one with a class.

    The file is commented, and can be checked at once. Without --stage, a YAML file calls a compiler of its own name.
    """
    from opscope.harness.cli.backend_files import write

    write(file, stages)
    name = file if file.parent != Path() else file.name
    click.echo(f"wrote {name}; then: opscope backend check {name}")
    click.echo(f"and: pytest --model mnist_mlp --op-by-op --backend {name}")


@backend.command()
@click.argument("backend_name", metavar="NAME|FILE")
@click.option("--arch", default=None, metavar="BOARD", help="Board, such as `n150`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(backend_name: str, arch: str | None, as_json: bool) -> None:
    """Check that a backend keeps to what every backend has to: twelve small ops and one
    that no compiler knows, a kill, a hang, its options.

    What it may do or leave, such as refusing an op, is a note. An op has 30 seconds; after two that take longer, the
    others are left out. Exit code 1 if a check fails.
    """
    from opscope.base.temporary_folder import TemporaryFolder
    from opscope.harness.cli import backend_suite
    from opscope.harness.record.result_options import ResultOptions

    options = ResultOptions(arch=arch) if arch else ResultOptions()
    made: list[Check] = []
    with TemporaryFolder("backend-check") as folder:
        for made_one in backend_suite.checks(backend_name, options, Path(folder)):
            made.append(made_one)
            if not as_json:
                _show(made_one)
    failed = sum(each.result == backend_suite.FAILS for each in made)
    if as_json:
        from opscope.wire import answer, backend_check

        answer.print_answer(made, backend_check.PRINTS)
    else:
        notes = sum(each.result == backend_suite.NOTE for each in made)
        noted = f"{notes} note{'' if notes == 1 else 's'}"
        Page().line(f"{len(made)} checks = {len(made) - failed - notes} ok + {noted} + {failed} failed")
    if failed:
        raise SystemExit(1)


def _show(check: Check) -> None:
    """Prints a check as it is done."""
    Page().hanging([(f"{check.result:5}  {check.name}: ", STYLES[check.result])], [check.text])
