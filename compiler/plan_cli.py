"""Command line of the planner: `opscope plan`."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

from compiler.cli import InputProblem
from compiler.errors import CompilerInputError, StageFailure

if TYPE_CHECKING:
    from compiler.graph import BudaGraph


@click.command("plan", short_help="Plan a graph onto a grid of cores as TT-Buda does.")
@click.argument("what", metavar="FILE|matmul:MxKxN[:FORMAT[:FIDELITY]]")
@click.option("--arch", default="grayskull", show_default=True, help="A board, or an arch (then its default board).")
@click.option("--policy", default="default", show_default=True, help="MinimizeGrid, NLP, Ribbon and so on.")
@click.option("--op", default="", help="Show every candidate of this op.")
@click.option("--seed", default=0, show_default=True, help="Of policy Random.")
@click.option("--target-cycles", default=0, help="Of NLP and Ribbon; 0: worked out, or the default.")
@click.option("--harvested", default=0, help="Mask of rows that are switched off, such as 2050.")
@click.option("--chips", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--epoch-break", multiple=True, metavar="OP", help="OP starts an epoch.")
@click.option("--chip-break", multiple=True, metavar="OP", help="OP starts an epoch on the next chip.")
@click.option("--op-size", multiple=True, metavar="OP=RxC", help="OP has this grid.")
@click.option("--parameters-in-l1", is_flag=True, help="Parameters stay in L1 where they fit.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def plan_command(
    what: str,
    arch: str,
    policy: str,
    op: str,
    seed: int,
    target_cycles: int,
    harvested: int,
    chips: int,
    epoch_break: tuple[str, ...],
    chip_break: tuple[str, ...],
    op_size: tuple[str, ...],
    parameters_in_l1: bool,
    as_json: bool,
) -> None:
    """Plan a graph onto a grid of cores as TT-Buda does: a YAML graph, a StableHLO module, or a single matmul."""
    from compiler import plan_report, planner
    from compiler.balancer.options import LegalizerOptions
    from compiler.balancer.policies import PolicyOptions
    from compiler.placer.epochs import PlacerOptions

    try:
        graph = _graph(what)
        for name in (*epoch_break, *chip_break, *((op,) if op else ())):
            graph.node(name)
        options = LegalizerOptions(dram_parameters=not parameters_in_l1, overrides=_overrides(graph, op_size))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DeprecationWarning)
            found = planner.plan(
                graph,
                planner.budget_of(arch, harvested),
                policy,
                options,
                PolicyOptions(seed, target_cycles),
                PlacerOptions(epoch_break, chip_break, chips),
            )
    except (StageFailure, CompilerInputError, ValueError) as error:
        raise InputProblem(" ".join(str(error).split())) from error
    for one in caught:
        click.echo(f"warning: {one.message}", err=True)
    if as_json:
        click.echo(json.dumps(plan_report.as_json(found, op)))
        return
    for line in plan_report.op_lines(found, op) if op else plan_report.plan_lines(found):
        click.echo(line)


def _graph(what: str) -> BudaGraph:
    from compiler.graph_file import matmul_graph, read_graph

    if what.startswith("matmul:"):
        return matmul_graph(what)
    path = Path(what)
    if path.suffix in (".yaml", ".yml"):
        return read_graph(path)
    from compiler import api
    from compiler.passes.ttir_to_graph import lower

    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CompilerInputError(f"{path}: expected a readable graph or StableHLO file, got: {reason}") from error
    return lower(api.stablehlo_to_ttir(data), path.stem)


def _overrides(graph: BudaGraph, sizes: tuple[str, ...]) -> dict:
    from compiler.balancer.options import OpOverride
    from compiler.balancer.shapes import Grid

    found = {}
    for text in sizes:
        name, _, size = text.rpartition("=")
        try:
            r, c = (int(part) for part in size.split("x"))
        except ValueError:
            raise CompilerInputError(f"--op-size: expected OP=RxC, got {text!r}") from None
        found[graph.node(name).name] = OpOverride(Grid(r, c))
    return found
