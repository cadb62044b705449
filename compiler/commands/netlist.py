"""Command line of netlists: `opscope netlist`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opscope.base.terminal import console
from opscope.compiler.commands.compile import InputProblem
from opscope.compiler.errors import CompilerInputError

if TYPE_CHECKING:
    from opscope.compiler.buda.netlist.model import Graph, Netlist
    from opscope.compiler.buda.plan_to_binary import PlannedProgram
    from opscope.wire import netlist as wire


@click.command("netlist", short_help="Check and show a TT-Buda netlist, or compile it to a binary.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--op", default="", help="Show only this op.")
@click.option(
    "--loops", default=1, show_default=True, type=click.IntRange(min=1), help="Value of $p_loop_count in programs."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the binary to this file.")
@click.option(
    "--board", default="", help="Board to check and compile for; default: the first chip of `arch` that fits."
)
@click.option(
    "--run-test-config",
    "as_test",
    is_flag=True,
    help="Draw inputs by the netlist's `test-config`, run it on the simulator and compare; exit code 1 if it differs.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the inputs that are drawn.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def netlist_command(
    file: Path, op: str, loops: int, output: Path | None, board: str, as_test: bool, seed: int, as_json: bool
) -> None:
    """Check a netlist FILE (cores, queues, formats, L1, DRAM, loops), then show it, compile it or run its own test."""
    from opscope.compiler.target.system_desc import load_board

    if as_test:
        _run_test(file, board, seed, as_json)
        return
    try:
        netlist = _checked(file, load_board(board).arch if board else "")
        if op and op not in netlist.ops:
            raise CompilerInputError(
                f"--op: expected an op of {file}, got {op!r}; try {', '.join(list(netlist.ops)[:4])}"
            )
        compiled = _compiled(file, netlist, board, loops)
        if output is not None:
            _write(compiled, output)
    except (CompilerInputError, ValueError) as error:
        raise InputProblem(" ".join(str(error).split())) from error
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(netlist.ops[op] if op else _answer(netlist), indent=None)
    else:
        _show(netlist, op, loops)


def _checked(file: Path, arch: str) -> Netlist:
    """Reads and checks a netlist. Raises CompilerInputError with the line of what is wrong."""
    from opscope.base.yaml_text import YamlError, read_text
    from opscope.compiler.buda.netlist.check import for_first_chip
    from opscope.compiler.buda.netlist.lines import with_line
    from opscope.compiler.buda.netlist.parse import parse

    try:
        text = read_text(file)
    except (OSError, YamlError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CompilerInputError(f"{file}: expected a readable netlist, got: {reason}") from error
    try:
        return for_first_chip(parse(text, file.stem, arch))
    except CompilerInputError as error:
        raise CompilerInputError(f"{file}: {with_line(str(error), text)}") from error


def _run_test(file: Path, board: str, seed: int, as_json: bool) -> None:
    """Runs the netlist's own test. The exit code is 1 if it does not pass."""
    from opscope.compiler.commands.netlist_test import run_test

    if seed < 0:
        raise InputProblem(f"--seed: expected a whole number from 0, got {seed}")
    try:
        passed = run_test(file, board, seed, as_json)
    except (CompilerInputError, ValueError) as error:
        raise InputProblem(" ".join(str(error).split())) from error
    if not passed:
        raise SystemExit(1)


def _compiled(file: Path, netlist: Netlist, board: str, loops: int) -> PlannedProgram:
    """Compiles a netlist, also where nothing is written: what has no binary is not fine. Raises CompilerInputError."""
    from opscope.compiler.buda.netlist.to_binary import to_binary

    try:
        return to_binary(netlist, board, {"p_loop_count": loops})
    except CompilerInputError as error:
        raise CompilerInputError(f"{file}: {error}") from error


def _write(compiled: PlannedProgram, output: Path) -> None:
    from opscope.compiler.target import binary

    data = binary.write(compiled.binary)
    try:
        output.write_bytes(data)
    except OSError as error:
        raise CompilerInputError(f"{output}: expected a file to write, got: {error.strerror}") from error
    click.echo(f"{output}: {len(data)} bytes", err=True)


def _used(netlist: Netlist, graph: Graph) -> int:
    return sum(len(op.cores) for op in graph.ops)


def _l1(netlist: Netlist, graph: Graph) -> int:
    from opscope.compiler.buda.netlist.check import core_buffers

    return max((sum(b.bytes for b in core_buffers(netlist, graph, op)) for op in graph.ops), default=0)


def _answer(netlist: Netlist) -> wire.Netlist:
    from opscope.wire import netlist as wire

    return wire.Netlist(
        name=netlist.name,
        arch=netlist.arch,
        queues=len(netlist.queues),
        graphs=tuple(
            wire.Graph(
                name=graph.name,
                chip=graph.target_device,
                ops=tuple(node.name for node in graph.ops),
                cores=_used(netlist, graph),
                l1_bytes=_l1(netlist, graph),
            )
            for graph in netlist.graphs
        ),
        programs=tuple(program.name for program in netlist.programs),
    )


def _show(netlist: Netlist, op: str, loops: int) -> None:
    from rich.table import Table

    from opscope.compiler.buda.netlist.emit import op_line
    from opscope.compiler.buda.netlist.interpret import executions

    if op:
        click.echo(op_line(netlist.ops[op]))
        return
    table = Table("graph", "chip", "ops", "cores", "most L1 on a core", title=f"{netlist.name} on {netlist.arch}")
    for graph in netlist.graphs:
        cores, used = _used(netlist, graph), _l1(netlist, graph)
        table.add_row(graph.name, str(graph.target_device), str(len(graph.ops)), str(cores), f"{used:,} bytes")
    console().print(table)
    kinds: dict[str, int] = {}
    for queue in netlist.queues.values():
        key = f"{queue.type} in {queue.loc}"
        kinds[key] = kinds.get(key, 0) + 1
    click.echo("queues: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    for program in netlist.programs:
        steps = [step.graph for step in executions(program, {"p_loop_count": loops})]
        click.echo(f"program {program.name}: {len(steps)} executions of {len(set(steps))} graphs")
    click.echo("checked: cores, inputs, formats, L1, DRAM, programs")
