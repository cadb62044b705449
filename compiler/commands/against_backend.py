"""`opscope ops --against-backend`: this compiler beside the one of a backend, op by op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base.page import Page
from opscope.base.plugins import plugins
from opscope.base.visible_text import counted
from opscope.compiler.commands.compile import InputProblem

if TYPE_CHECKING:
    from opscope.compiler.against.comparison import Comparison
    from opscope.compiler.against.one_op import OtherOp

EMISSIONS = "opscope.emissions"
"""Entry points `(backend, runs, models, board) -> what it made of each op`."""
MODELS = ("suite:ops",)
"""What is compared if no model is named: every op of StableHLO that models use, in several types."""
_MOST = 40
"""Differences that the terminal lists; --markdown and --json have all."""


def compare_with(
    backend: str, runs: tuple[Path, ...], models: tuple[str, ...], arch: str, as_json: bool, markdown: bool
) -> None:
    """Prints where this compiler and a backend's stop, and how what they print differs."""
    from opscope.compiler import api
    from opscope.compiler.against.comparison import compare
    from opscope.compiler.against.ours import emission
    from opscope.compiler.against.page import to_markdown

    try:
        board = api.load_board(arch)
    except ValueError as error:
        raise InputProblem(f"--{error}") from error
    comparison = compare(_others(backend, runs, models or MODELS, arch), lambda module: emission(module, board))
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(comparison)
    elif markdown:
        click.echo(to_markdown(comparison, backend), nl=False)
    else:
        _show(comparison)


def _others(backend: str, runs: tuple[Path, ...], models: tuple[str, ...], arch: str) -> Iterator[OtherOp]:
    from opscope.compiler.against.one_op import Emission, OtherOp

    for point in plugins(EMISSIONS):
        source: Callable[..., Iterator[Any]] = point.load()
        for op_id, name, module, ttir, ttnn, stage, reason in source(backend, runs, models, arch):
            yield OtherOp(op_id, name, module, Emission(ttir, ttnn, stage, reason))


def _show(comparison: Comparison) -> None:
    page = Page()
    if comparison.stops:
        page.table(
            [(heading, "") for heading in ("op", "ops", "here", "there", "example")],
            [(s.name, str(s.count), s.here[:90], s.there[:90], s.example) for s in comparison.stops],
        )
    groups = comparison.groups[:_MOST]
    if groups:
        page.table(
            [(heading, "") for heading in ("dialect", "op", "what", "here", "there", "ops", "example", "kept because")],
            [
                (
                    g.difference.dialect,
                    g.difference.op if g.difference.kind == "ops" else ", ".join(g.ops[:3]),
                    f"{g.difference.kind} {g.difference.what}".strip(),
                    g.difference.ours[:60],
                    g.difference.theirs[:60],
                    str(g.count),
                    g.example,
                    g.reason[:60],
                )
                for g in groups
            ],
        )
    if (rest := len(comparison.groups) - len(groups)) > 0:
        page.prose(f"{rest} more differences; try --markdown")
    for each in comparison.agreements:
        page.prose(
            f"{each.dialect}: {each.names} of {each.both} ops print the same ops, {each.upstream - each.names} "
            f"others the form that a test of upstream's expects, {each.all} also the same attributes, "
            "types and layouts"
        )
    unexplained = counted(len(comparison.unexplained), "difference")
    page.prose(f"{counted(comparison.ops, 'op')} compared, {unexplained} without a reason")
