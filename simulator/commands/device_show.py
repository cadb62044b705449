"""`opscope device show BOARD`: what the simulator models of a board, from which source, and how far that is from it.

The group of commands about boards is here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opscope.base.page import Page
from opscope.simulator.commands.device_system_desc import system_desc
from opscope.simulator.commands.simulate import InputProblem

if TYPE_CHECKING:
    from opscope.wire import device_show as wire


@click.group("device", short_help="What is modelled of a board; its system descriptor for tt-mlir.")
def device() -> None:
    """Show what the simulated cards are, and write what tt-mlir compiles for."""


device.add_command(system_desc)


@device.command("show")
@click.argument("board")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(board: str, as_json: bool) -> None:
    """Show what is modelled of BOARD: n150, n300, t3000, galaxy, p100, p150, p300, e150, an arch, n150-harvested-2052.

    Prints its figures, what is modelled and from which source, errors that were measured against cards, and where the
    simulator is known to differ from silicon.
    """
    from opscope.compiler.target.system_desc import load_board
    from opscope.simulator.modelled import modelled

    try:
        facts = modelled(load_board(board))
    except ValueError as error:
        raise InputProblem(str(error)) from error
    if as_json:
        from opscope.wire.answer import print_answer

        print_answer(facts, indent=None)
    else:
        _show(facts)


def _show(facts: wire.Board) -> None:
    page = Page()
    chips = "1 chip" if facts.chips == 1 else f"{facts.chips} chips"
    page.line(f"{facts.board}: {facts.arch}, {chips}, {facts.clock_ghz:g} GHz")
    read, written = facts.dram_interleaved_gb_per_s
    page.prose(
        f"DRAM {facts.dram_gb_per_s:g} GB/s, of which readers at its banks reach {facts.dram_efficiency:.0%}; "
        f"all cores together read {read:g} and write {written:g} GB/s of interleaved pages; NoC "
        f"{facts.noc_bytes_per_clock} bytes per clock; a 32x32x32 product takes {facts.cycles_per_tile_matmul} "
        "cycles per fidelity phase"
    )
    if (link := facts.ethernet) is not None:
        page.prose(f"a link between chips: {link.gb_per_s:g} GB/s one way, {link.hop_ns:g} ns a hop")
    for name, profile in facts.profiles:
        rows, cols = profile.grid
        page.prose(
            f"profile {name}: {rows}x{cols} cores, {profile.l1_usable:,} of {profile.l1_bytes:,} bytes of L1 "
            f"each, {profile.dram_channels} DRAM channels of {profile.dram_channel_bytes:,} bytes"
            f"{f' (borrowed: {borrowed})' if (borrowed := profile.borrowed) else ''}"
        )
    page.prose(f"formats: {', '.join(facts.formats)}; in Dst {', '.join(facts.dst_formats)}")
    page.prose(f"sources of these figures: {facts.source}")
    page.prose(f"passes over arrays are made on this machine by {facts.passes_by}; no bit depends on it")
    columns = [(name, "left") for name in ("part", "how", "source")]
    rows = [(part.what, part.how, part.source) for part in facts.modelled]
    page.table(columns, rows, "What is modelled")
    columns = [("what", "left"), ("error", "right"), ("rows", "right"), ("against", "left")]
    page.table(
        columns,
        [(e.what, _percent(e), f"{e.rows:,}", e.against) for e in facts.errors],
        "Measured errors",
    )
    if not facts.errors:
        page.line("none measured")
    if (bits := facts.bits) is not None:
        page.prose(f"With --exact-order, bits of ttnn's own kernels: {'; '.join(bits.same)}")
        columns = [(name, "left") for name in ("kernels", "format", "the real kernel", "how far this is off")]
        rows = [(", ".join(e.kernels), e.data_format, e.rule, e.effect) for e in bits.apart]
        page.table(columns, rows, "Other bits than ttnn's own kernels on ttsim")
    page.line("Known to differ from silicon:")
    for text in facts.differences:
        page.hanging([("- ", "")], [text])


def _percent(error: wire.MeasuredError) -> str:
    if error.statistic == "one":
        return f"{error.percent:+g} %"
    return f"{error.statistic} {error.percent:g} %"
