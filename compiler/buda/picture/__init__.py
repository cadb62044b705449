"""Draws a plan as a page: the grid of cores of every epoch, coloured by share of time or by kind of op.

A switch chooses the colours, a legend explains them; the slowest op of each epoch is marked and named. Hovering an op
shows its model, and with arrows where its operands come from and where its result goes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from opscope.compiler.buda.fused import fused_type
from opscope.compiler.buda.graph import Edge, NodeKind, OpSpec
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_report import borrowed_note, dram_queues_note


def flows(plan: BudaPlan) -> list[dict[str, str]]:
    """Returns a row per edge between ops and per queue that an op reads: both names, and what carries the data."""
    where = {p.op.name: (epoch.number, epoch.chip) for epoch in plan.epochs for p in epoch.placements}
    cut = set(plan.cuts)
    rows = []
    for edge in plan.graph.edges:
        if edge.consumer not in where or plan.graph.node(edge.producer).kind is NodeKind.OUTPUT:
            continue
        rows.append({"from": edge.producer, "to": edge.consumer, "how": _carrier(plan, edge, where, edge in cut)})
    return rows


def _carrier(plan: BudaPlan, edge: Edge, where: dict[str, tuple[int, int]], cut: bool) -> str:
    """Returns the way of one operand: how many tiles, after which TMs, from which cores to which."""
    node, reader = plan.graph.node(edge.producer), plan.choices[edge.consumer].model
    tms = f" | {' | '.join(str(tm) for tm in edge.tms)}" if edge.tms else ""
    cores = reader.input_grid(edge.operand)
    spread = reader.grid.volume // cores.volume
    to = f"{cores} cores" + (f", each multicast to {spread}" if spread > 1 else "")
    tiles = f"{node.shape.tiles:,} tiles of {node.data_format}{tms}"
    if edge.producer not in where:
        return f"{tiles}, queue in DRAM or of the host to {to}"
    sender = plan.choices[edge.producer].model
    if cut or where[edge.producer] != where[edge.consumer]:
        return f"{tiles}, queue in DRAM: {sender.grid} cores to {to}"
    pieces = f"{sender.block.t} pieces" if sender.block.t > 1 else "one piece"
    return f"{tiles} in {pieces}, pipes from {sender.grid} cores to {to}"


LETTER = 0.62
"""Width of a letter, as a share of the size of its font (wide system fonts, so that none is cut off)."""
SHORT = {
    "sparse_matmul": ("sparse", "sp"),
    "matmul": ("matmul", "mm"),
    "_fused_op": ("fused", "f"),
    "reduce": ("reduce", "r"),
    "subtract": ("subtract", "sub"),
    "multiply": ("multiply", "mul"),
    "maximum": ("maximum", "max"),
    "reciprocal": ("recip", "rc"),
    "buffer": ("buffer", "buf"),
    "fork_nop": ("fork nop", "nop"),
    "splice": ("splice", "cut"),
}
"""Kind of name -> shorter ones; the number follows them."""


def width(text: str, size: float) -> float:
    """Returns the width of a line of text, in the units of its font's size."""
    return len(text) * LETTER * size


def forms(name: str) -> tuple[str, ...]:
    """Returns ways to write an op's name, longest first: whole, by kind and number, by first letter and number."""
    match = re.fullmatch(r"(\D*?)_?(\d+)(_.*)?", name)
    if match is None:
        return tuple(dict.fromkeys((name, *SHORT.get(name, ()))))
    kind, number = match[1], match[2]
    shorts = SHORT.get(kind, (kind, kind[:3]))
    return tuple(dict.fromkeys((name, *(f"{short} {number}" for short in shorts), f"{kind.strip('_')[:1]}{number}")))


def label(name: str, room: float, size: float) -> str:
    """Returns the longest form of a name that fits into that room; nothing if none does."""
    return next((form for form in forms(name) if width(form, size) <= room), "")


def thousands(cycles: int) -> str:
    """Returns cycles in a few letters: 132,634 as `133k`."""
    return f"{round(cycles / 1000)}k" if cycles >= 1000 else str(cycles)


CELL = 36
"""Units of a core's side in the drawing, which is scaled to the page."""
LETTERS = 10.5
"""Size of the letters of a name, in the same units."""
KINDS = {
    "dense product": frozenset({"matmul", "depthwise"}),
    "gather (sparse product)": frozenset({"sparse_matmul"}),
    "fused": frozenset({"fused_op"}),
    "reduction": frozenset({"reduce"}),
    "copy, buffer": frozenset({"nop", "tilizer"}),
    "splice": frozenset({"splice"}),
}
"""Kinds of op that have a colour of their own -> types; every other op is elementwise."""
ELEMENTWISE = "elementwise"
ACROSS = ((2, 2), (6, 3), (8, 4), (12, 4))
"""Number of epochs -> how many stand side by side; 5 if there are more."""


@dataclass(frozen=True)
class Box:
    """One op's rectangle, in cores."""

    name: str
    label: str
    cycles: str
    """Cycles in short, if there is room for them below the name."""
    tip: str
    x: int
    y: int
    width: int
    height: int
    upright: bool
    """Whether the words run from top to bottom."""
    kind: int
    """Number of its kind in the legend."""
    share: int
    """Per cent of the epoch's time in which it is busy."""
    slowest: bool


@dataclass(frozen=True)
class Panel:
    """One epoch."""

    number: int
    chip: int
    kind: str
    cores: int
    share: int
    cycles: int
    switch: int
    loading: int
    moved: int
    slowest: str
    """The first of the ops that take as long as the epoch."""
    boxes: tuple[Box, ...]


def kind_of(spec: OpSpec) -> str:
    """Returns the kind of an op, as the legend names it."""
    return next((kind for kind, types in KINDS.items() if spec.type in types and not spec.relu), ELEMENTWISE)


def panels(plan: BudaPlan) -> tuple[Panel, ...]:
    """Returns every epoch, with its ops' rectangles."""
    switches, moved, loading = plan.switch_cycles(), plan.crossing_bytes(), plan.load_cycles()
    kinds = [*KINDS, ELEMENTWISE]
    drawn = []
    for i, epoch in enumerate(plan.epochs):
        boxes = []
        for p in epoch.placements:
            model = plan.choices[p.op.name].model
            side = ", on its side" if p.transposed else ""
            tip = (
                f"{p.op.name}: {fused_type(model.spec)}, grid {model.grid}{side}, t {model.block.t}, "
                f"{model.cycles:,} cycles, L1 {model.l1_bytes:,} bytes"
            )
            upright = p.grid.r > p.grid.c
            along, across = max(p.grid.r, p.grid.c) * CELL - 6, min(p.grid.r, p.grid.c) * CELL
            brief = thousands(model.cycles) if across >= 2.6 * LETTERS else ""
            boxes.append(
                Box(
                    p.op.name,
                    label(p.op.name, along, LETTERS),
                    brief,
                    tip,
                    p.col,
                    p.row,
                    p.grid.c,
                    p.grid.r,
                    upright,
                    kinds.index(kind_of(model.spec)),
                    round(100 * model.cycles / max(1, epoch.cycles)),
                    model.cycles == epoch.cycles,
                )
            )
        drawn.append(
            Panel(
                epoch.number,
                epoch.chip,
                epoch.kind,
                epoch.cores,
                round(100 * epoch.cores / plan.budget.grid.volume),
                epoch.cycles,
                switches[i],
                loading[i],
                moved[i],
                next(box.name for box in boxes if box.slowest),
                tuple(boxes),
            )
        )
    return tuple(drawn)


def page(plan: BudaPlan) -> str:
    """Returns the page, a single HTML file without references to others."""
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    drawn = panels(plan)
    used = {box.kind for panel in drawn for box in panel.boxes}
    most = max((panel.cycles for panel in drawn), default=0)
    # In a script element only `<` could end the data early.
    data = json.dumps(flows(plan)).replace("<", "\\u003c")
    return environment.get_template("plan.html.jinja").render(
        plan=plan,
        panels=drawn,
        cell=CELL,
        letters=LETTERS,
        rows=plan.budget.grid.r,
        cols=plan.budget.grid.c,
        across=next((side for most, side in ACROSS if len(drawn) <= most), 5),
        kinds=[(i, kind) for i, kind in enumerate([*KINDS, ELEMENTWISE]) if i in used],
        note=dram_queues_note(plan),
        borrowed=borrowed_note(plan),
        longest=[panel for panel in drawn if panel.cycles == most],
        flows=data,
    )
