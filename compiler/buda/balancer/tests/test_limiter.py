"""What limits an op, against sums by hand."""

from __future__ import annotations

from math import ceil

import pytest

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.balancer.limiter import dram_bytes_per_clock, limiter_cycles
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests import graphs
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
