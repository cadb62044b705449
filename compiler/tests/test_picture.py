"""The page of a plan: each epoch's share and costs, each op's rectangle, colour and words."""

from __future__ import annotations

import re

from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests.graphs import chain, fork
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.picture import page, panels
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.planner import BudaPlan, budget_of, plan


def planned() -> BudaPlan:
    """A product on 2x3 cores, an exponential on 8x1 beside it; in a second epoch a sum and a product, fused."""
    grids = {"mm": Grid(2, 3), "e": Grid(8, 1), "_fused_op_0": Grid(1, 2)}
    sizes = LegalizerOptions(overrides={name: OpOverride(grid, "n") for name, grid in grids.items()})
    graph = fuse_ops(fork(), "wormhole_b0")
    breaks = PlacerOptions(epoch_breaks=("_fused_op_0",))
    return plan(graph, budget_of("n150"), "MinimizeGrid", sizes, placer=breaks)


def test_panels_are_epochs_and_boxes_ops() -> None:
    held = planned()
    first, second = panels(held)
    assert (first.number, first.chip, first.kind, second.number) == (0, 0, "forward", 1)
    # 14 of 80 cores are 17.5 %, which rounds to the even number; two cores are 2.5 %.
    assert [(panel.cores, panel.share) for panel in (first, second)] == [(14, 18), (2, 2)]
    assert [panel.cycles for panel in (first, second)] == [epoch.cycles for epoch in held.epochs]
    # 8x12 tiles of 2080 bytes, of the product and the exponential, wait for the second epoch.
    assert (first.moved, second.moved) == (2 * 96 * 2080, 0)
    assert (first.switch, second.switch) == (int(2 * first.moved / (20.4 * 6)), 0)
    bytes_of_a_core = 56 * 1024 + 65408
    assert (first.loading, second.loading) == (int(14 * bytes_of_a_core / 122.4), int(2 * bytes_of_a_core / 122.4))
    boxes = [*first.boxes, *second.boxes]
    assert [(box.name, box.x, box.y, box.width, box.height) for box in boxes] == [
        ("mm", 0, 0, 3, 2), ("e", 3, 0, 1, 8), ("_fused_op_0", 0, 0, 2, 1),
    ]  # fmt: skip
    # A core is 26 pixels wide, a letter 7; hues are 137.508 degrees apart.
    assert [(box.label, box.hue) for box in boxes] == [("mm", 0), ("e", 137), ("add, mu", 275)]
    slowest = {op.name: held.choices[op.name].model.cycles for op in held.graph.ops}
    assert [box.slowest for box in first.boxes] == [slowest["mm"] > slowest["e"], slowest["e"] > slowest["mm"]]
    assert second.boxes[0].slowest
    (chained,) = panels(plan(chain(5), budget_of("n150"), "MinimizeGrid"))
    assert [box.hue for box in chained.boxes] == [0, 137, 275, 52, 190]
    exp, fused = held.choices["e"].model, held.choices["_fused_op_0"].model
    assert first.boxes[1].tip == (f"e: exp, grid 8x1, t 1, {exp.cycles:,} cycles, L1 {exp.l1_bytes:,} bytes")
    assert second.boxes[0].tip == (
        f"_fused_op_0: fused_op (add, multiply), grid 1x2, t 1, {fused.cycles:,} cycles, L1 {fused.l1_bytes:,} bytes"
    )


def test_the_page_draws_them_in_cells_of_26_pixels() -> None:
    text = page(planned())
    assert 'width="209" height="261"' in text  # 8 x 10 cores and a line
    drawn = re.findall(r'data-op="(\w+)" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', text)
    assert drawn == [
        ("mm", "1", "1", "77", "51"), ("e", "79", "1", "25", "207"), ("_fused_op_0", "1", "1", "51", "25"),
    ]  # fmt: skip
