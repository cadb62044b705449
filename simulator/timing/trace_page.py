"""Writes a page of a run by events: what limits each operation, its roofline, and who worked when."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opscope.base.atomic_write import write_whole
from opscope.simulator.counters import moved_line
from opscope.simulator.timing.events.recording import THREADS, OpTimes, Recording
from opscope.simulator.timing.trace import named

COLOURS = {
    "unpack": "#4c78a8",
    "math": "#54a24b",
    "pack": "#f58518",
    "dram": "#b279a2",
    "noc": "#e45756",
    "launch": "#9d9d9d",
    "ethernet": "#72b7b2",
}
MOST_CORES, MOST_SPANS = 48, 6000
WIDTH = 1000
STYLE = """body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;color:#222}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}
td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
svg{background:#fafafa;border:1px solid #ddd}.warn{background:#fff3cd;padding:.5em 1em}
i{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}"""


def render(recording: Recording, card: str, counters: Mapping[str, Any]) -> str:
    """Returns the page as HTML, with a run's counters; it loads nothing from elsewhere."""
    said = "".join(f'<p class="warn">{html.escape(note)}</p>' for note in recording.notes)
    if recording.partial:
        said += '<p class="warn">Partial: the run stopped at its limit of events.</p>'
    legend = "".join(f'<i style="background:{COLOURS[name]}"></i>{name}' for name in COLOURS)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Time on the device</title>'
        f"<style>{STYLE}</style><h1>Time on {html.escape(card)}, by events</h1>"
        f"<p>{_moved(recording, counters)}</p>{said}"
        f"<p>{legend}</p><h2>Roofline</h2><p>Each operation is a dot, FLOP per byte that its cores receive over the "
        "NoC, and a square, FLOP per byte of DRAM, both at its FLOP per cycle of work and waits. The lines are the "
        "most that the chip can do: the matrix units in one fidelity phase (flat), and what DRAM or the NoC can bring."
        "</p>"
        f"{_roofline(recording)}<h2>Timeline per core</h2>{_timeline(recording)}<h2>What limits each operation</h2>"
        f"{_table(recording)}</html>"
    )


def write_page(path: Path, recording: Recording, card: str, counters: Mapping[str, Any]) -> None:
    """Writes the page, whole or not at all. Raises OSError."""
    write_whole(path, render(recording, card, counters))


def _moved(recording: Recording, counters: Mapping[str, Any]) -> str:
    """Says what a run takes and moves, as the command does, and of how many inputs the figures below are."""
    text = f"{recording.events:,} events; {len(recording.ops):,} operations; {moved_line(counters)}"
    text += f"; {recording.ethernet_bytes:,} bytes over Ethernet." if recording.ethernet_bytes else "."
    if recording.planned:
        text += (
            f" These are of one input. Up to {recording.inputs} inputs went through an epoch to find its time: what "
            "the table counts in cycles, and the timeline, are of all of them."
        )
    return text


def _work(op: OpTimes) -> float:
    return max((op.busy[thread] for thread in THREADS), default=0) / max(1, op.cores)


def _roofline(recording: Recording) -> str:
    """FLOP per byte and FLOP per cycle of each operation, both logarithmic, under what the chip can do at most."""
    roofs = recording.roofs
    points = [
        (op, way, op.flops / size, op.flops / cycles)
        for op in recording.ops
        for way, size in (("over the NoC", op.received_bytes), ("of DRAM", _dram_bytes(op)))
        if size and op.flops and (cycles := _work(op) + sum(op.waited.values()) / max(1, op.cores)) > 0
    ]
    if not points or roofs is None:
        return "<p>No operation moved bytes to its cores.</p>"
    ridges = [roofs.flops / roofs.dram_bytes, roofs.flops / roofs.noc_bytes]
    left, right = _decades([x for _, _, x, _ in points] + ridges)
    bottom, top = _decades([y for *_, y in points] + [roofs.flops])

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = (math.log10(x) - left) / (right - left), (math.log10(y) - bottom) / (top - bottom)
        return 60 + (WIDTH - 90) * across, 10 + 220 * (1 - up)

    marks = []
    for name, rate, colour in (("DRAM", roofs.dram_bytes, COLOURS["dram"]), ("NoC", roofs.noc_bytes, COLOURS["noc"])):
        begin = max(10**left, 10**bottom / rate)
        (x1, y1), (x2, y2), (x3, y3) = (
            at(begin, begin * rate),
            at(roofs.flops / rate, roofs.flops),
            at(10**right, roofs.flops),
        )
        marks.append(
            f'<polyline points="{x1:.1f},{y1:.1f} {x2:.1f},{y2:.1f} {x3:.1f},{y3:.1f}" fill="none" stroke="{colour}">'
            f"<title>{name}: {rate:,.0f} bytes per cycle; matrix units: {roofs.flops:,.0f} FLOP per cycle</title>"
            f'</polyline><text x="{x1 + 4:.1f}" y="{y1 - 6:.1f}" fill="{colour}">{name}</text>'
        )
    for op, way, intensity, rate in points:
        x, y = at(intensity, rate)
        title = html.escape(f"{op.name}: {intensity:.3g} FLOP per byte {way}, {rate:,.0f} FLOP per cycle")
        fill = f'fill="{COLOURS.get(op.limiter, "#222")}"><title>{title}</title>'
        if way == "of DRAM":
            marks.append(f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {fill}</rect>')
        else:
            marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {fill}</circle>')
    axes = (
        f'<text x="60" y="248">{10.0**left:g}</text><text x="{WIDTH - 30}" y="248" text-anchor="end">{10.0**right:g} '
        f'FLOP per byte</text><text x="4" y="20">{10.0**top:.0e}</text><text x="4" y="230">{10.0**bottom:.0e}</text>'
    )
    return f'<svg width="{WIDTH}" height="255" font-size="12">{axes}{"".join(marks)}</svg>'


def _dram_bytes(op: OpTimes) -> int:
    """What DRAM reads and writes while the op works, of all inputs."""
    return op.inputs * (op.dram_read_bytes - op.loaded_bytes + op.dram_written_bytes)


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _timeline(recording: Recording) -> str:
    if not recording.spans:
        return "<p>Nothing ran.</p>"
    first = recording.spans[0].section if recording.planned else None
    spans = [span for span in recording.spans if first is None or span.section == first]
    cores = sorted({(span.chip, span.core) for span in spans})[:MOST_CORES]
    row_of = {core: row for row, core in enumerate(cores)}
    shown = [span for span in spans if (span.chip, span.core) in row_of][:MOST_SPANS]
    end = max(span.start + span.cycles for span in shown)
    bars = [f'<text x="2" y="{18 * row + 13}">{core[1][0]}-{core[1][1]}</text>' for core, row in row_of.items()]
    for span in shown:
        x, width = 50 + (WIDTH - 60) * span.start / end, max(0.3, (WIDTH - 60) * span.cycles / end)
        y = 18 * row_of[span.chip, span.core] + 1 + 5 * THREADS.index(span.thread)
        bars.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="4" fill="{COLOURS[span.thread]}">'
            f"<title>{html.escape(named(span, recording))}, {span.thread}</title></rect>"
        )
    which = f" of epoch {first}" if first is not None else ""
    return (
        f"<p>{len(cores)} cores{which}, 0 to {end:,.0f} cycles. The trace has all.</p>"
        f'<svg width="{WIDTH}" height="{18 * len(cores) + 4}" font-size="11">{"".join(bars)}</svg>'
    )


def _table(recording: Recording) -> str:
    rows = [
        f"<tr><td>{html.escape(op.name)}</td><td>{html.escape(op.kernel)}</td><td>{op.section}</td><td>{op.cores}</td>"
        + (f"<td>{op.inputs}</td>" if recording.planned else "")
        + "".join(f"<td>{op.busy[thread] // max(1, op.cores):,}</td>" for thread in THREADS)
        + f"<td>{sum(op.waited.values()) // max(1, op.cores):,}</td><td>{html.escape(op.limiter)}</td>"
        + "".join(f"<td>{size:,}</td>" for size in (op.dram_read_bytes, op.dram_written_bytes, op.noc_bytes))
        + "</tr>"
        for op in sorted(recording.ops, key=_work, reverse=True)
    ]
    head = "".join(
        f"<th>{name}</th>"
        for name in (
            "operation",
            "kernel",
            *(("epoch", "cores", "inputs") if recording.planned else ("number", "cores")),
            *THREADS,
            "waits",
            "limited by",
            "DRAM read",
            "DRAM written",
            "NoC",
        )
    )
    of = ", of all inputs that went through" if recording.planned else ""
    return (
        f"<p>Cycles per core{of}. Bytes{' of one input' if of else ''}: DRAM by all cores, the NoC to the busiest core."
        f"</p><table><tr>{head}</tr>{''.join(rows)}</table>"
    )
