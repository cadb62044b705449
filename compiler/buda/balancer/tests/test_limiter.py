"""What limits an op, against sums by hand."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.balancer.limiter import dram_bytes_per_clock, limiter_cycles
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec
from opscope.compiler.target.system_desc import load_board

GRAYSKULL, WORMHOLE = (Budget.of(load_board(name)) for name in ("grayskull", "wormhole_b0"))


def test_dram_is_shared_by_its_readers() -> None:
    """Half of 20.4 bytes per clock at best; 12 of Wormhole's 18 channels count."""
    assert dram_bytes_per_clock(WORMHOLE, 0) == dram_bytes_per_clock(WORMHOLE, 24) == 10.2
    assert dram_bytes_per_clock(WORMHOLE, 25) == pytest.approx(20.4 / 3)
    assert dram_bytes_per_clock(GRAYSKULL, 1) == pytest.approx(10.5 * 2**30 / 1e9 / 2)


def test_an_op_between_ops_moves_sixteen_bytes_per_clock() -> None:
    graph = graphs.chain(3, op="nop")
    model = next(m for m in legalize(graph, "e1", GRAYSKULL).models if m.grid == Grid(1, 1))
    expected = ceil(48 * 2080 / 16)
    assert expected > model.cycles
    assert limiter_cycles(graph, "e1", model, GRAYSKULL) == expected


def test_a_product_that_reads_dram_waits_for_its_weights() -> None:
    graph = graphs.matmul(1, 64, 8)
    model = next(m for m in legalize(graph, "mm", WORMHOLE).models if m.grid == Grid(1, 1))
    expected = ceil(64 * 8 * 2080 / 10.2)
    assert expected > model.cycles
    assert limiter_cycles(graph, "mm", model, WORMHOLE) == expected
    assert limiter_cycles(graph, "mm", model, WORMHOLE, 25) == ceil(64 * 8 * 2080 / 6.8)
    in_l1 = legalize(graph, "mm", WORMHOLE, LegalizerOptions(dram_parameters=False)).models
    resident = next(m for m in in_l1 if m.parameters[1] is not None)
    assert limiter_cycles(graph, "mm", resident, WORMHOLE) == max(resident.cycles, ceil(64 * 2080 / 10.2))


@pytest.mark.parametrize(("kind", "slow"), [(NodeKind.OUTPUT, True), (NodeKind.QUEUE, True), (NodeKind.OP, False)])
def test_what_goes_to_dram_goes_slower(kind: NodeKind, slow: bool) -> None:
    """48 tiles, for one user in DRAM or for another op."""
    graph = graphs.chain(2, op="nop")
    last = replace(graph.nodes[-1], kind=kind, op=OpSpec("nop") if kind is NodeKind.OP else None)
    graph = BudaGraph("chain", (*graph.nodes[:-1], last), graph.edges)
    model = next(m for m in legalize(graph, "e1", WORMHOLE).models if m.grid == Grid(1, 1))
    assert limiter_cycles(graph, "e1", model, WORMHOLE) == max(model.cycles, ceil(48 * 2080 / (10.2 if slow else 16)))
    assert limiter_cycles(graph, "e0", model, WORMHOLE) == max(model.cycles, ceil(48 * 2080 / 10.2)), "its input"


def test_a_picker_in_l1_is_read_once() -> None:
    """However many its tiles are, only the 32 of the right operand count, which come from DRAM."""
    graph = graphs.one_tap_convolution()
    model = replace(legalize(graph, "gather", GRAYSKULL).models[0], cycles=1)
    picker, right = model.inputs[:2]
    large = replace(model.output, block_shape=BlockShape(100, 8, 4, UBlock(1, 1)))

    def cycles(spec: OpSpec, *inputs: BufferModel) -> int:
        return limiter_cycles(graph, "gather", replace(model, spec=spec, inputs=inputs), GRAYSKULL)

    few, many = (ceil(tiles * 2080 / (10.5 * 2**30 / 1e9 / 2)) for tiles in (32, 3200))
    assert [cycles(model.spec, large, right), cycles(model.spec, picker, large)] == [few, many]
    assert cycles(OpSpec("matmul"), large, right) == many
