"""`opscope score` runs a suite of others and tells whose fault each wrong answer is."""

from __future__ import annotations

import click

from opscope.base import machine
from opscope.harness.record.optest import DEFAULT_BACKEND
from opscope.harness.record.signature import shorten

SUITES = ("suite:onnx",)


@click.command(short_help="Score a suite by its own stored answers.")
@click.argument("suite", type=click.Choice(SUITES))
@click.option("--only", default="*", metavar="GLOB", help="Cases by name, such as `test_resize*`.")
@click.option("--sample", type=click.IntRange(1), help="Only so many cases, drawn with --seed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--backend", default=DEFAULT_BACKEND, show_default=True, help="The backend that runs the cases.")
@click.option("--arch", default=None, metavar="BOARD", help="Board, such as `n150`.")
@click.option("-n", "--jobs", type=click.IntRange(1), default=None, help="Processes.  [default: one per processor]")
@click.option("--json", "kind", flag_value="json", help="Print one JSON object per case.")
@click.option("--markdown", "kind", flag_value="markdown", help="Print the scores as a section in Markdown.")
def score(
    suite: str,
    only: str,
    sample: int | None,
    seed: int,
    backend: str,
    arch: str | None,
    jobs: int | None,
    kind: str | None,
) -> None:
    """Run SUITE and judge each case by the answer that the suite stores.

    `suite:onnx` is the node tests of the package onnx. For each wrong answer the fault is named: importer, frontend,
    compiler, device or comparison; `never` is what no board can have. Exit code 1 if a fault is this project's.
    """
    from importlib import metadata

    from opscope.harness.prepare.onnx_suite.onnx_cases import Choice
    from opscope.harness.suites import onnx_suite, page
    from opscope.harness.suites.faults import OURS, Fault

    options = {"arch": arch} if arch else {}
    choice = Choice(only, sample or 0, seed)
    rows = onnx_suite.scores(choice, backend, options, jobs or machine.processors())
    if kind == "json":
        click.echo(page.to_json(rows), nl=False)
    elif kind == "markdown":
        versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("onnx", "torch-mlir"))
        click.echo(page.to_markdown(rows, versions), nl=False)
    else:
        for row in rows:
            if row.fault is not Fault.NONE:
                click.echo(f"{row.name}  {row.fault}  {shorten(row.why, 160)}")
        click.echo(page.one_line(rows))
    if any(row.fault in OURS for row in rows):
        raise SystemExit(1)
