"""Draws a plan as a page: the grid of cores of every epoch, coloured by op."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opscope.compiler.buda.fused import fused_type
from opscope.compiler.buda.plan_report import dram_queues_note
from opscope.compiler.buda.planner import BudaPlan

CELL = 26
"""Pixels of a core's side."""
GOLDEN_ANGLE = 137.508
"""Degrees between the hues of neighbours; this keeps them far apart for any number of ops."""


@dataclass(frozen=True)
class Box:
    """One op's rectangle, in cores."""

    name: str
    label: str
    tip: str
    x: int
    y: int
    width: int
    height: int
    hue: int
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
    boxes: tuple[Box, ...]


def panels(plan: BudaPlan) -> tuple[Panel, ...]:
    """Returns every epoch, with its ops' rectangles."""
    switches, moved, loading = plan.switch_cycles(), plan.crossing_bytes(), plan.load_cycles()
    hues = {node.name: int(i * GOLDEN_ANGLE % 360) for i, node in enumerate(plan.graph.ops)}
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
            room = p.grid.c * CELL // 7
            boxes.append(
                Box(
                    p.op.name,
                    (str(model.spec.fused) if model.spec.fused is not None else p.op.name)[:room],
                    tip,
                    p.col,
                    p.row,
                    p.grid.c,
                    p.grid.r,
                    hues[p.op.name],
                    model.cycles == epoch.cycles,
                )
            )
        share = round(100 * epoch.cores / plan.budget.grid.volume)
        drawn.append(
            Panel(
                epoch.number,
                epoch.chip,
                epoch.kind,
                epoch.cores,
                share,
                epoch.cycles,
                switches[i],
                loading[i],
                moved[i],
                tuple(boxes),
            )
        )
    return tuple(drawn)


def page(plan: BudaPlan) -> str:
    """Returns the page, a single HTML file without references to others."""
    import jinja2

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    rows, cols = plan.budget.grid.r, plan.budget.grid.c
    return environment.get_template("plan.html.jinja").render(
        plan=plan, panels=panels(plan), cell=CELL, rows=rows, cols=cols, note=dram_queues_note(plan)
    )
