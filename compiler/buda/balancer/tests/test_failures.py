"""Every reason for which a candidate is no op model fires for a graph, with TT-Buda's text."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.failure import OpModelFailureReason as Reason
from opscope.compiler.buda.balancer.legalizer import legalize
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board

IN_L1 = LegalizerOptions(dram_parameters=False)


def scattered(rows: int, cols: int) -> SparsePattern:
    """A tile per row of tiles, no two alike."""
    first = [(32 * r + r // 32 % 32, 32 * (r % cols) + r % 32) for r in range(rows)]
    second = [(32 * r + 31, 32 * (r % cols) + r // 1024) for r in range(rows)]
    return SparsePattern.of(first + second, 32 * rows, 32 * cols)


def failures(graph: BudaGraph, op: str, options: LegalizerOptions | None = None, arch: str = "grayskull") -> Counter:
    return legalize(graph, op, Budget.of(load_board(arch)), options).failures


CASES = {
    # Twelve z are laid out over rows, 8 rows of cores neither divide them nor are divided.
    Reason.IllegalStackForGrid: (graphs.stacked_unary(12, 2, "vstack(12)"), "op", None),
    # The right operand is stacked, the product is cut by rows.
    Reason.OperandAccessPreventsStreaming: (graphs.stacked_right_operand(), "mm", None),
    # The user repeats the result.
    Reason.UserAccessPreventsStreaming: (graphs.then_unary(8, 8, "broadcast(r, 2)"), "first", None),
    Reason.OperandAndUserAccessPreventsStreaming: (graphs.stacked_right_operand("broadcast(c, 2)"), "mm", None),
    Reason.IllegalStreaming: (graphs.matmul(64, 4, 4), "mm", LegalizerOptions(max_matmul_t=8)),
    # One tile more than a core's share is cut off.
    Reason.PaddingConstraintsNotSatisfied: (graphs.then_unary(8, 8, "buda_unpad(2, 0)"), "first", None),
    Reason.InputBufferAllocationFailure: (graphs.matmul(392, 4, 2), "mm", None),
    Reason.IllegalSparseMatmul: (graphs.convolution(scattered(4096, 4), 1, 2), "gather", None),
    # An output of 1 x 140 blocks leaves less than the two rows of the right operand take.
    Reason.L1UsageOverMaxLimit: (graphs.matmul(1, 64, 137), "mm", None),
    Reason.ExceededDramChannelCapacity: (graphs.matmul(1, 4096, 1024), "mm", IN_L1),
}


@pytest.mark.parametrize("reason", list(Reason), ids=lambda r: r.name)
def test_reason_fires(reason: Reason) -> None:
    graph, op, options = CASES[reason]
    assert failures(graph, op, options)[reason] > 0


def test_texts_are_those_of_the_published_list() -> None:
    assert {reason.name: reason.value for reason in Reason} == {
        "IllegalStackForGrid": "Illegal stack for grid dimension",
        "UserAccessPreventsStreaming": "User access prevents streaming",
        "OperandAccessPreventsStreaming": "Producer access prevents streaming",
        "OperandAndUserAccessPreventsStreaming": "Producer and User access prevents streaming",
        "IllegalStreaming": "Illegal streaming",
        "L1UsageOverMaxLimit": "L1 usage > L1 Max",
        "ExceededDramChannelCapacity": "Exceeded DRAM channel capacity",
        "InputBufferAllocationFailure": "Failed to allocate input buffers",
        "PaddingConstraintsNotSatisfied": "Padding constraints not satisfied",
        "IllegalSparseMatmul": "Illegal sparse matmul",
    }


def test_details_count_bytes() -> None:
    graph, op, options = CASES[Reason.L1UsageOverMaxLimit]
    candidates = legalize(graph, op, Budget.of(load_board("grayskull")), options).candidates
    details = [c.detail for c in candidates if c.failure is Reason.L1UsageOverMaxLimit]
    assert details
    assert all(d.startswith("L1 Usage[") and d.endswith("] > L1 Max[577408]") for d in details)


def test_a_larger_l1_makes_more_legal() -> None:
    graph = graphs.matmul(392, 4, 2)
    assert sum(failures(graph, "mm", arch="wormhole_b0").values()) < sum(failures(graph, "mm").values())


def test_parameters_in_l1_move_to_dram_when_they_do_not_fit() -> None:
    small, large = graphs.matmul(4, 4, 4), graphs.matmul(4, 64, 16)
    budget = Budget.of(load_board("grayskull"))
    first = legalize(small, "mm", budget, IN_L1).models[0]
    assert first.parameters[1] is not None
    assert first.parameters[1].l1_bytes == 16 * 2080
    moved = legalize(large, "mm", budget, IN_L1).models[0]
    assert moved.parameters[1] is None
    assert moved.dram[1] is not None


def test_every_core_makes_more_than_is_cut_off() -> None:
    graph, op, _ = CASES[Reason.PaddingConstraintsNotSatisfied]
    candidates = legalize(graph, op, Budget.of(load_board("grayskull"))).candidates
    shares = {8 // (c.grid.r * c.stream.r): c.failure for c in candidates if c.stream.by_rows}
    assert shares == {
        8: None,
        4: None,
        2: Reason.PaddingConstraintsNotSatisfied,
        1: Reason.PaddingConstraintsNotSatisfied,
    }


def test_a_resident_parameter_is_held_for_every_z() -> None:
    budget = Budget.of(load_board("grayskull"))
    deep = legalize(graphs.matmul(4, 4, 4, z=3), "mm", budget, IN_L1).models[0]
    flat = legalize(graphs.matmul(4, 4, 4), "mm", budget, IN_L1).models[0]
    assert deep.l1_bytes - flat.l1_bytes == 2 * 16 * 2080


def test_short_memory_halves_the_micro_block() -> None:
    """Six copies of an input of 8, 4 or 2 tiles: what fits depends on how many tiles the micro block has."""
    graph, budget = graphs.sum_of(12, 1, 64), Budget.of(load_board("grayskull"))
    output = 2 * 64 * 2080

    def with_l1(tiles: int) -> int:
        limit = replace(budget, l1_usable=output + 12 * 2 * tiles * 2080)
        whole = next(c for c in legalize(graph, "op", limit).candidates if c.grid == Grid(1, 1) and c.stream.none)
        return whole.models[0].block.ublock.tiles

    assert [with_l1(tiles) for tiles in (8, 7, 4, 3, 2)] == [8, 4, 4, 2, 2]


def test_overrides_fix_grid_and_streaming() -> None:
    graph, budget = graphs.matmul(392, 4, 2), Budget.of(load_board("grayskull"))
    fixed = LegalizerOptions(overrides={"mm": OpOverride(Grid(8, 1), "r", (7, 1), u_kt=2)})
    (candidate,) = legalize(graph, "mm", budget, fixed).candidates
    assert (candidate.grid, candidate.stream.r) == (Grid(8, 1), 7)
    assert [model.u_kt for model in candidate.models] == [2]
    with pytest.raises(CompilerInputError, match="a grid that divides 392x2 tiles and fits 10x12, got 3x1"):
        legalize(graph, "mm", budget, LegalizerOptions(overrides={"mm": OpOverride(Grid(3, 1))}))
