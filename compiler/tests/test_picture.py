"""The page of a plan: each epoch's share and costs, each op's rectangle, colour and words, and what flows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from opscope.compiler.buda import picture
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests.graphs import fork
from opscope.compiler.buda.fuse_ops import fuse_ops
from opscope.compiler.buda.picture import flows, forms, label, page, panels, thousands
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.planner import budget_of, plan


def planned() -> BudaPlan:
    """A product on 2x3 cores, an exponential on 8x1 beside it; in a second epoch a sum and a product, fused."""
    grids = {"mm": Grid(2, 3), "e": Grid(8, 1), "_fused_op_0": Grid(1, 2)}
    sizes = LegalizerOptions(overrides={name: OpOverride(grid, "n") for name, grid in grids.items()})
    graph = fuse_ops(fork(), "wormhole_b0")
    breaks = PlacerOptions(epoch_breaks=("_fused_op_0",))
    return plan(graph, budget_of("n150"), "MinimizeGrid", sizes, placer=breaks)


def test_panels_are_epochs_and_boxes_ops() -> None:
    plan = planned()
    first, second = panels(plan)
    assert (first.number, first.chip, first.kind, second.number) == (0, 0, "forward", 1)
    # 14 of 72 cores are 19.4 %; two cores are 2.8 %.
    assert [(panel.cores, panel.share) for panel in (first, second)] == [(14, 19), (2, 3)]
    assert [panel.cycles for panel in (first, second)] == [epoch.cycles for epoch in plan.epochs]
    # 8x12 tiles of 2080 bytes, of the product and the exponential, wait for the second epoch.
    assert (first.moved, second.moved) == (2 * 96 * 2080, 0)
    assert (first.switch, second.switch) == (int(2 * first.moved / (20.4 * 6)), 0)
    bytes_of_a_core = 56 * 1024 + 65408
    assert (first.loading, second.loading) == (int(14 * bytes_of_a_core / 122.4), int(2 * bytes_of_a_core / 122.4))
    boxes = [*first.boxes, *second.boxes]
    assert [(box.name, box.x, box.y, box.width, box.height) for box in boxes] == [
        ("mm", 0, 0, 3, 2),
        ("e", 3, 0, 1, 8),
        ("_fused_op_0", 0, 0, 2, 1),
    ]
    # A core is 36 units wide, a letter 0.62 x 10.5; the words of a tall op run downwards.
    assert [(box.label, box.upright, box.kind) for box in boxes] == [
        ("mm", False, 0),
        ("e", True, 6),
        ("fused 0", False, 2),
    ]
    assert [box.cycles for box in boxes] == [thousands(plan.choices[box.name].model.cycles) for box in boxes]
    assert [box.share for box in first.boxes] == [
        round(100 * plan.choices[name].model.cycles / first.cycles) for name in ("mm", "e")
    ]
    assert [box.share for box in second.boxes] == [100]
    slowest = {op.name: plan.choices[op.name].model.cycles for op in plan.graph.ops}
    assert [box.slowest for box in first.boxes] == [slowest["mm"] > slowest["e"], slowest["e"] > slowest["mm"]]
    assert second.boxes[0].slowest
    assert second.slowest == "_fused_op_0"
    exp, fused = plan.choices["e"].model, plan.choices["_fused_op_0"].model
    assert first.boxes[1].tip == (f"e: exp, grid 8x1, t 1, {exp.cycles:,} cycles, L1 {exp.l1_bytes:,} bytes")
    assert second.boxes[0].tip == (
        f"_fused_op_0: fused_op (add, multiply), grid 1x2, t 1, {fused.cycles:,} cycles, L1 {fused.l1_bytes:,} bytes"
    )


def test_the_page_draws_them_in_cells_of_36_units() -> None:
    text = page(planned())
    assert 'viewBox="0 0 289 325"' in text  # 8 x 9 cores and a line
    drawn = re.findall(r'data-op="(\w+)".*?<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', text)
    assert sorted(drawn) == [
        ("_fused_op_0", "1", "1", "71", "35"),
        ("e", "109", "1", "35", "287"),
        ("mm", "1", "1", "107", "71"),
    ]


def test_the_legend_has_the_kinds_that_occur_and_the_bottleneck_is_named() -> None:
    plan = planned()
    text = page(plan)
    legend = re.findall(r'<span class="kinds"><i class="k(\d)"></i>([^<]+)', text)
    assert legend == [("0", "dense product"), ("2", "fused"), ("6", "elementwise")]
    slowest = max(panels(plan), key=lambda panel: panel.cycles)
    assert f"Longest: epoch {slowest.number}, {slowest.cycles:,} cycles, held up by {slowest.slowest}." in text
    assert text.count(' slowest"') == sum(box.slowest for panel in panels(plan) for box in panel.boxes)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_epochs_that_take_equally_long_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    first = panels(planned())[0]
    for count, named in ((2, "epochs 0, 1, {} cycles, held up by e, e."), (4, "epochs 0, 1, 2 and 1 more, {}")):
        same = tuple(replace(first, number=number) for number in range(count))
        monkeypatch.setattr(picture, "panels", lambda _, same=same: same)
        assert f"Longest: {named.format(f'{first.cycles:,}')}" in page(planned())


def test_flows_say_what_carries_each_operand() -> None:
    rows = {(row["from"], row["to"]): row["how"] for row in flows(planned())}
    assert rows == {
        ("x", "mm"): "32 tiles of Float16_b, queue in DRAM or of the host to 2x1 cores, each multicast to 3",
        ("w", "mm"): "48 tiles of Float16_b, queue in DRAM or of the host to 1x3 cores, each multicast to 2",
        ("mm", "e"): "96 tiles of Float16_b in one piece, pipes from 2x3 cores to 8x1 cores",
        ("mm", "_fused_op_0"): "96 tiles of Float16_b, queue in DRAM: 2x3 cores to 1x2 cores",
        ("e", "_fused_op_0"): "96 tiles of Float16_b, queue in DRAM: 8x1 cores to 1x2 cores",
    }


@pytest.mark.parametrize(
    ("room", "label_of"), [(200, "sparse_matmul_12"), (60, "sparse 12"), (33, "sp 12"), (20, "s12"), (10, "")]
)
def test_a_name_is_shortened_to_a_form_that_still_says_what_it_is(room: float, label_of: str) -> None:
    assert label("sparse_matmul_12", room, 10.5) == label_of


def test_names_without_a_number_are_whole_or_short() -> None:
    assert forms("mm") == ("mm",)
    assert forms("subtract") == ("subtract", "sub")
    assert forms("buffer_3_a_b") == ("buffer_3_a_b", "buffer 3", "buf 3", "b3")
    assert (thousands(132_634), thousands(999)) == ("133k", "999")
