"""Command line of the planner: `opscope plan`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opscope.base import regular_file
from opscope.base.live import progress
from opscope.base.page import Page
from opscope.base.plugins import plugins
from opscope.compiler.commands.compile import InputProblem
from opscope.compiler.errors import CompilerInputError, StageFailure

if TYPE_CHECKING:
    from opscope.compiler.buda.configuration import Configuration
    from opscope.compiler.buda.graph import BudaGraph
    from opscope.compiler.buda.plan import BudaPlan


def _list_options(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Prints TT-Buda's options and what each does here, and ends."""
    if not value or ctx.resilient_parsing:
        return
    from opscope.compiler.buda.configuration import OPTIONS

    for name, option in OPTIONS.items():
        click.echo(f"{name:34} {option.does or f'no effect: {option.no_effect}'}")
    ctx.exit()


@click.command("plan", short_help="Plan a graph onto a grid of cores as TT-Buda does.")
@click.argument("what", metavar="MODEL|FILE|matmul:MxKxN[:FORMAT[:FIDELITY]]")
@click.option(
    "--arch", default="grayskull", show_default=True, help="A board, or an arch, which means its default board."
)
@click.option(
    "--policy", default="default", show_default=True, help="Policy of the balancer: MinimizeGrid, NLP, Ribbon, ..."
)
@click.option("--op", default="", help="Show every candidate of this op.")
@click.option("--seed", default=0, show_default=True, help="Seed of policy Random.")
@click.option(
    "--target-cycles",
    default=0,
    type=click.IntRange(min=0),
    help="Target of policies NLP and Ribbon; 0: their own.",
)
@click.option("--harvested", default=0, help="Mask of the rows that are switched off, such as 2050.")
@click.option("--chips", default=1, show_default=True, type=click.IntRange(min=1), help="Number of chips.")
@click.option("--epoch-break", multiple=True, metavar="OP", help="Start a new epoch at OP.")
@click.option("--chip-break", multiple=True, metavar="OP", help="Start a new epoch on the next chip at OP.")
@click.option("--op-size", multiple=True, metavar="OP=RxC", help="Give OP this grid of cores.")
@click.option("--parameters-in-l1", is_flag=True, help="Keep parameters in L1 if they fit.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Set one of TT-Buda's compile options.")
@click.option(
    "--list-options",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_options,
    help="List TT-Buda's compile options and their effect here.",
)
@click.option("--netlist", type=click.Path(path_type=Path), help="Write the netlist to this file, as YAML.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Write a page to this file that shows the cores of each epoch by op.",
)
@click.option(
    "--backend-output", type=click.Path(path_type=Path), help="Write kernels, pipes and epochs to this folder."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the binary to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan_command(**given: Any) -> None:
    """Plan a model, a StableHLO file, a YAML graph or a single matmul onto a grid of cores as TT-Buda does.

    MODEL+training is the training step of a model: forward, backward and optimizer in separate epochs.
    """
    from opscope.compiler.buda import plan_report

    asked = _Asked(**given)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            planned = _planned(asked)
    except (StageFailure, CompilerInputError, ValueError) as error:
        raise InputProblem(" ".join(str(error).split())) from error
    for warning in caught:
        click.echo(f"warning: {warning.message}", err=True)
    if asked.as_json:
        from opscope.compiler.buda.plan_answer import answer
        from opscope.wire.answer import print_answer

        print_answer(answer(planned, asked.op), indent=None)
        return
    page = Page()
    for line in plan_report.op_lines(planned, asked.op) if asked.op else plan_report.plan_lines(planned):
        page.folded(line, hang=6)


@dataclass(frozen=True)
class _Asked:
    """The arguments of the command."""

    what: str
    arch: str
    policy: str
    op: str
    seed: int
    target_cycles: int
    harvested: int
    chips: int
    epoch_break: tuple[str, ...]
    chip_break: tuple[str, ...]
    op_size: tuple[str, ...]
    parameters_in_l1: bool
    settings: tuple[str, ...]
    netlist: Path | None
    picture: Path | None
    backend_output: Path | None
    output: Path | None
    as_json: bool

    def configuration(self) -> Configuration:
        """TT-Buda's options as --set gives them."""
        from opscope.compiler.buda.configuration import Configuration

        config = Configuration()
        for text in self.settings:
            name, _, value = text.partition("=")
            config.set_configuration_options(**{name: value})
        return config

    def constrain(self, config: Configuration, graph: BudaGraph) -> None:
        """Adds the breaks and grids of single ops. Raises what an op is refused with that the graph lacks."""
        for name in (*self.epoch_break, *self.chip_break):
            graph.node(name)
        config.set_epoch_break(self.epoch_break)
        config.set_chip_break(self.chip_break)
        for name, size in _sizes(graph, self.op_size):
            config.override_op_size(name, size)

    def files(self, config: Configuration) -> dict[str, Path]:
        """What is to be written -> where."""
        folder = self.backend_output or (Path(value) if (value := config.get("backend_output_dir")) else None)
        files = {"picture": self.picture, "netlist": self.netlist, "binary": self.output, "backend": folder}
        return {what: path for what, path in files.items() if path is not None}


def _planned(asked: _Asked) -> BudaPlan:
    """Plans, and writes the files that were asked for. Raises StageFailure, CompilerInputError or ValueError."""
    from opscope.compiler.buda import planner
    from opscope.compiler.buda.balancer.options import LegalizerOptions
    from opscope.compiler.buda.balancer.policies import PolicyOptions
    from opscope.compiler.buda.fused import op_named
    from opscope.compiler.target.system_desc import MOST_CHIPS

    config = asked.configuration()
    progress.step(f"reading {asked.what}")
    graph = _graph(asked.what, config, fallback=asked.output is None)
    asked.constrain(config, graph)
    board, mask = config.device
    chips, harvested = asked.chips, asked.harvested
    if chips > MOST_CHIPS:
        raise CompilerInputError(f"--chips: expected at most {MOST_CHIPS}, got {chips}; try --chips {MOST_CHIPS}")
    masks = (harvested,) * chips if harvested else config.harvested(chips)
    budget = planner.budget_of(board or asked.arch, harvested or mask)
    graph = config.applied(graph, budget.arch)
    progress.step(f"placing {len(graph.nodes)} ops")
    planned = planner.plan(
        graph,
        budget,
        config.get("balancer_policy", asked.policy),
        config.legalizer(graph, LegalizerOptions(dram_parameters=not asked.parameters_in_l1)),
        PolicyOptions(asked.seed, asked.target_cycles),
        config.placer(graph, chips),
    )
    if asked.op:
        op_named(planned.graph, asked.op)
    progress.step("writing")
    if wanted := asked.files(config):
        _write(planned, board or asked.arch, config, masks, wanted)
    return planned


def _graph(source: str, config: Configuration, fallback: bool) -> BudaGraph:
    from opscope.compiler.buda.graph_file import matmul_graph, read_graph

    if source.startswith("matmul:"):
        return matmul_graph(source)
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        return read_graph(path)
    from opscope.compiler import api
    from opscope.compiler.pipelines.buda import lower

    flags = {
        "prestride": config.get("enable_conv_prestride", True),
        "stable_softmax": config.get("enable_stable_softmax", True),
        "consteval": config.get("enable_consteval", True),
        # A binary is the card's part alone: what the host computes afterwards is in an image.
        "fallback": fallback,
    }
    return lower(api.stablehlo_to_ttir(_stablehlo(source)), path.stem, **flags)


def _stablehlo(source: str) -> bytes:
    """The bytes of a StableHLO file, or of a model that an entry point of `opscope.sources` knows by name."""
    path = Path(source)
    if path.exists() or path.suffix or path.parent != Path():
        try:
            return regular_file.read_bytes(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise CompilerInputError(f"{path}: expected a readable graph or StableHLO file, got: {reason}") from error
    for entry in plugins("opscope.sources"):
        try:
            return entry.load()(source)
        except ValueError as error:
            raise CompilerInputError(f"MODEL: {str(error).removeprefix('--model: ')}") from error
    raise CompilerInputError(
        f"{source}: expected a file, got none; try installing a package that registers models (opscope.sources)"
    )


def _write(
    plan: BudaPlan, arch: str, config: Configuration, masks: tuple[int, ...], wanted: Mapping[str, Path]
) -> None:
    """Writes the files that were asked for, by what they are. Raises CompilerInputError if one cannot be."""
    try:
        if "picture" in wanted:
            from opscope.compiler.buda.picture import page

            wanted["picture"].write_text(page(plan), encoding="utf-8")
        if wanted.keys() - {"picture"}:
            from opscope.compiler.buda.netlist.emit import netlist_of, to_yaml
            from opscope.compiler.buda.netlist.to_binary import with_programs
            from opscope.compiler.buda.plan_to_binary import QueueOptions, to_binary
            from opscope.compiler.target import binary
            from opscope.compiler.target.system_desc import load_board

            program = to_binary(
                plan,
                load_board(arch),
                QueueOptions.of(config),
                harvested=masks,
                chip_ids=tuple(range(len(masks))),
            )
            written = netlist_of(plan, program)
            text = to_yaml(written)
            if "netlist" in wanted:
                wanted["netlist"].write_text(text, encoding="utf-8")
            if "binary" in wanted:
                wanted["binary"].write_bytes(binary.write(with_programs(program, written).binary))
            if "backend" in wanted:
                from opscope.compiler.buda.backend_output import write_folder

                write_folder(wanted["backend"], plan, program, text)
    except OSError as error:
        raise CompilerInputError(f"{error.filename}: expected a place to write, got: {error.strerror}") from error
    for path in wanted.values():
        click.echo(f"wrote {path}", err=True)


def _sizes(graph: BudaGraph, sizes: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, int]]]:
    for text in sizes:
        name, _, size = text.rpartition("=")
        try:
            r, c = (int(part) for part in size.split("x"))
        except ValueError:
            raise CompilerInputError(f"--op-size: expected OP=RxC, got {text!r}") from None
        yield graph.node(name).name, (r, c)
