"""Command line of the coverage table: `opscope ops`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click

from opscope.base import regular_file
from opscope.base.op_families import FAMILIES
from opscope.base.page import Page
from opscope.compiler.commands.compile import InputProblem
from opscope.compiler.ops.row import Group, Lowering

FAMILY = click.Choice(list(dict.fromkeys((*FAMILIES, *get_args(Group)))))
"""Families of ops, and what passes call the ops that only the device has."""

DEVICE = ("ttir.", "ttnn.")
"""How the names of rows begin that no op of StableHLO or chlo has."""


def compare(path: Path, kinds: tuple[str, ...], as_json: bool) -> None:
    """Prints the ops of a list that the table lacks, calls otherwise or does not lower, and counts."""
    from opscope.compiler.against.op_list import ListError, against, read_list, summary

    try:
        compared = against(read_list(regular_file.read_text(path)))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputProblem(f"{path}: expected a readable list of ops, got: {reason}") from error
    except UnicodeDecodeError as error:
        raise InputProblem(f"{path}: expected a list of ops as JSON, got bytes that are not UTF-8") from error
    except ListError as error:
        raise InputProblem(f"{path}: {error}") from error
    shown = [each for each in compared if not kinds or each.kind in kinds]
    if as_json:
        from opscope.wire.answer import print_answer
        from opscope.wire.ops import AgainstList

        print_answer(shown, AgainstList)
        return
    page = Page()
    lines = [each for each in shown if kinds or each.words or each.difference != "same"]
    page.table(
        [(heading, "") for heading in ("op", "difference", "kind", "reason")],
        [(each.op, each.difference, each.kind, each.words) for each in lines],
    )
    page.prose(summary(compared))


@click.command("ops", short_help="List the ops that the reference compiler lowers, and why it lacks others.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--family", "families", multiple=True, type=FAMILY, help="Only ops of this family.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(get_args(Lowering)),
    help="Only ops that are lowered in this way.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the table with a list of tt-mlir's ops, as JSON: which are missing, renamed, have other attributes.",
)
@click.option(
    "--against-backend",
    metavar="BACKEND",
    help="Compile ops with this backend too, such as `tt`: where each compiler stops, and how their IR differs.",
)
@click.option(
    "--against-run",
    "against_runs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="With --against-backend: take what the backend made from this run, which has kept its IR; repeatable.",
)
@click.option(
    "--model", "models", multiple=True, metavar="MODEL", help="With --against-backend: whose ops.  [default: suite:ops]"
)
@click.option("--arch", default="n150", metavar="BOARD", help="With --against-backend: the board.  [default: n150]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print the table as a page in Markdown.")
def ops(
    against: Path | None,
    against_backend: str | None,
    against_runs: tuple[Path, ...],
    models: tuple[str, ...],
    arch: str,
    **asked: Any,
) -> None:
    """List ops: element types, names in ttir and ttnn, kernel, and how each is lowered or why not.

    NAME is an op, with or without its dialect, or a glob such as 'dynamic_*'. With --against-backend, ops of models are
    compiled by this compiler and by the backend's, and their TTIR and TTNN are compared.
    """
    table = _Table(**asked)
    if against_backend is not None:
        two_forms = table.as_json and table.markdown
        if table.is_filtered or table.kinds or against is not None or two_forms or (against_runs and models):
            raise InputProblem(
                "ops: expected --against-backend with --against-run or --model, --arch, and --json or --markdown, got "
                "other options"
            )
        from opscope.compiler.commands.against_backend import compare_with

        compare_with(against_backend, against_runs, models, arch, table.as_json, table.markdown)
    elif against_runs or models:
        raise InputProblem(
            "ops: expected --against-backend with --against-run and --model, got none; try --against-backend tt"
        )
    elif against is not None:
        if table.is_filtered or table.markdown:
            raise InputProblem("ops: expected --against alone, or with --kind or --json, got names or another form")
        compare(against, table.kinds, table.as_json)
    else:
        table.show()


@dataclass(frozen=True)
class _Table:
    """The part of the coverage table that is asked for, and its form."""

    names: tuple[str, ...]
    families: tuple[str, ...]
    kinds: tuple[str, ...]
    as_json: bool
    markdown: bool

    @property
    def is_filtered(self) -> bool:
        """Whether it is of some names or families alone."""
        return bool(self.names or self.families)

    def show(self) -> None:
        """Prints it. Raises InputProblem for a name or a filter that no op passes."""
        from opscope.compiler.ops.coverage import HEAD, closing_lines, coverage, to_markdown

        if self.as_json and self.markdown:
            raise InputProblem("ops: expected one form, got --json and --markdown")
        self._check_names()
        table = coverage(self.names, self.families, self.kinds)
        if not table and self.is_filtered:
            raise InputProblem("ops: expected ops that pass every filter, got none; try `opscope ops`")
        if self.as_json:
            from opscope.wire.answer import print_answer
            from opscope.wire.ops import Table

            print_answer(table, Table)
        elif self.markdown:
            click.echo(to_markdown(table), nl=False)
        else:
            page = Page()
            page.table([(heading, "") for heading in HEAD], [entry.cells() for entry in table])
            for line in closing_lines(table):
                page.prose(line)

    def _check_names(self) -> None:
        """Refuses a name that no op has, and one that only the device has, unless it is asked for as such."""
        from opscope.compiler.ops.coverage import coverage

        for name in self.names:
            of_name = coverage([name])
            if not of_name:
                raise InputProblem(
                    f"ops: expected an op or a glob, got {name!r}, which matches none; try `opscope ops`"
                )
            if "." not in name and "device" not in self.kinds and all(e.op.startswith(DEVICE) for e in of_name):
                raise InputProblem(
                    f"ops: expected an op of StableHLO or chlo, got {name!r}, which only the device has; "
                    f"try {of_name[0].op}"
                )
