"""What fits into L1 to the byte, what gives way first where it does not, and how the legalizer says so."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from opscope.compiler.buda.balancer.budget import Budget
from opscope.compiler.buda.balancer.failure import OpModelFailureReason as Reason
from opscope.compiler.buda.balancer.legalizer import Illegal, illegal_encoding, legalize, legalize_graph
from opscope.compiler.buda.balancer.op_model import Candidate, OpModel
from opscope.compiler.buda.balancer.options import LegalizerOptions, OpOverride
from opscope.compiler.buda.balancer.shapes import BlockShape, Grid, StreamFactor, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.balancer.tests.test_buffers import product
from opscope.compiler.buda.graph import BudaGraph, OpSpec
from opscope.compiler.buda.graph_builder import GraphBuilder
from opscope.compiler.buda.sparse_pattern import SparsePattern
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target.system_desc import load_board

BUDGET = Budget.of(load_board("grayskull"))
TILE = 2080
IN_L1, ONE_CORE = {"dram_parameters": False}, OpOverride(Grid(1, 1), "n")


def on_one_core(
    graph: BudaGraph, op: str, l1: float = inf, channel: float = inf, fixed: OpOverride = ONE_CORE, **options: Any
) -> Candidate:
    """The only candidate of an op that is not cut, with so many bytes of L1 and of a DRAM channel."""
    budget = replace(BUDGET, l1_usable=min(l1, 1 << 40), dram_channel_bytes=min(channel, 1 << 40))
    chosen = LegalizerOptions(overrides={op: fixed}, **options)
    (candidate,) = legalize(graph, op, budget, chosen).candidates
    return candidate


SUM = graphs.sum_of(2, 1, 64)
OUTPUT, LEAST = 2 * 64 * TILE, 2 * 64 * TILE + 4 * TILE
"""Bytes of the output, and with micro blocks of one tile for both inputs."""


@pytest.mark.parametrize(
    ("l1", "detail"),
    [
        (OUTPUT - 1, f"Output[{OUTPUT}] leaves 0 of L1 Max[{OUTPUT - 1}]"),
        (OUTPUT, f"Output[{OUTPUT}] leaves 0 of L1 Max[{OUTPUT}]"),
        (OUTPUT + 1, f"L1 Usage[{LEAST}] > L1 Max[{OUTPUT + 1}]"),
        (LEAST - 1, f"L1 Usage[{LEAST}] > L1 Max[{LEAST - 1}]"),
        (LEAST, ""),
    ],
)
def test_an_op_fits_to_the_byte(l1: int, detail: str) -> None:
    got = on_one_core(SUM, "op", l1)
    reason = Reason.InputBufferAllocationFailure if "leaves" in detail else Reason.L1UsageOverMaxLimit
    assert (got.failure, got.detail, len(got.models)) == (reason if detail else None, detail, 0 if detail else 1)
    assert got.rejected is None or got.rejected.l1_bytes == LEAST
    assert (got.rejected is not None) is ("Usage" in detail)


@pytest.mark.parametrize(
    ("l1", "factor"),
    [(OUTPUT + 32 * TILE, 2), (OUTPUT + 32 * TILE - 1, 1), (LEAST - 64 * TILE, 1), (LEAST - 64 * TILE - 1, 0)],
)
def test_an_output_that_does_not_fit_twice_may_be_held_once(l1: int, factor: int) -> None:
    """Beside two micro blocks of 8 tiles of both inputs; only then are these made smaller."""
    got = on_one_core(SUM, "op", l1, single_buffer_fallback=True)
    assert [model.output.factor for model in got.models] == [factor] * bool(factor)
    assert all(model.output.held == 64 for model in got.models)
    assert len(on_one_core(SUM, "op", l1).models) == (l1 >= LEAST)


def test_an_output_that_is_held_once_already_is_not_halved() -> None:
    graph = graphs.unary(1, 64, gradient=True)
    assert [model.output.factor for model in on_one_core(graph, "op", single_buffer_fallback=True).models] == [1]
    assert not on_one_core(graph, "op", 64 * TILE, single_buffer_fallback=True).models


def test_the_largest_resident_parameter_gives_way_first() -> None:
    """24 tiles of weights of 1120 bytes and a bias of 48 of 2080; a step of one tile of the product itself."""
    graph = product("matmul")
    chosen = on_one_core(graph, "op", **IN_L1).models[0]
    weights, bias = chosen.parameters[1:]
    assert weights is not None
    assert bias is not None
    assert (weights.l1_bytes, bias.l1_bytes) == (24 * 1120, 48 * TILE)
    least = min(model.l1_bytes for model in on_one_core(graph, "op", **IN_L1).models)
    for less, parameters, dram in (
        (0, (None, weights, bias), (None, None, None)),
        (bias.l1_bytes, (None, weights, None), (None, None, bias)),
        (bias.l1_bytes + weights.l1_bytes, (None, None, None), (None, weights, bias)),
    ):
        got = on_one_core(graph, "op", least - less, **IN_L1).models[0]
        assert (got.parameters, got.dram) == (parameters, dram)
    kept = replace(ONE_CORE, dram_parameters=True)
    assert on_one_core(graph, "op", fixed=kept, **IN_L1).models[0].parameters == (None, None, None)
    kept = replace(ONE_CORE, dram_parameters=False)
    assert on_one_core(graph, "op", fixed=kept).models[0].parameters == (None, weights, bias)


def test_what_moves_to_dram_fits_into_a_channel() -> None:
    graph = graphs.matmul(4, 64, 16)
    size = 64 * 16 * TILE
    assert on_one_core(graph, "mm", BUDGET.l1_usable, size, **IN_L1).failure is None
    got = on_one_core(graph, "mm", BUDGET.l1_usable, size - 1, **IN_L1)
    assert got.failure is Reason.ExceededDramChannelCapacity
    assert got.detail == f"Buffer Usage[{size}] > DRAM Channel[{size - 1}]"


@pytest.mark.parametrize(
    ("kind", "options", "u_kt", "steps"),
    [
        ("matmul", {}, 0, [4, 1, 2]),
        ("matmul", {"enumerate_u_kt": False}, 0, [4]),
        ("matmul", {}, 2, [2]),
        ("depthwise", {}, 0, [1]),
    ],
)
def test_a_product_has_a_model_for_each_smaller_inner_block(
    kind: str, options: dict, u_kt: int, steps: list[int]
) -> None:
    got = on_one_core(product(kind), "op", fixed=replace(ONE_CORE, u_kt=u_kt), **options)
    assert [model.u_kt for model in got.models] == steps


def test_a_sparse_product_has_those_that_keep_the_order_of_its_rows() -> None:
    """Eight tiles on a diagonal: any inner block will do; of two taps, each piece in time starts over."""
    one = on_one_core(graphs.one_tap_convolution(), "gather")
    assert [model.u_kt for model in one.models] == [8, 1, 2, 4]
    picker = SparsePattern.of_convolution((16, 16), (2, 1), (1, 1), ((0, 1), (0, 0)))
    builder = GraphBuilder("gather")
    sources = [
        builder.source("picker", graphs.CONSTANT, graphs.shape(16, 8)),
        builder.source("x", graphs.INPUT, graphs.shape(8, 4)),
    ]
    gather = builder.op("gather", OpSpec("sparse_matmul", sparse=picker), sources)
    builder.output("y", builder.op("exp", OpSpec("exp"), [gather]))
    two = builder.graph()
    for direction, piece, steps in (("c", (1, 2), [8, 1, 2, 4]), ("r", (2, 1), [8]), ("rz", (2, 1), [8, 1, 2, 4])):
        got = on_one_core(two, "gather", fixed=OpOverride(Grid(1, 1), direction, piece))
        assert [model.u_kt for model in got.models] == steps


@pytest.mark.parametrize(("most", "pieces"), [(0, [1, 2, 4, 8, 16]), (4, [1, 2, 4]), (3, [1, 2]), (1, [1])])
def test_a_product_is_cut_into_at_most_so_many_pieces(most: int, pieces: list[int]) -> None:
    graph, options = graphs.matmul(16, 4, 5), LegalizerOptions(max_matmul_t=most)
    rows = [
        c for c in legalize(graph, "mm", BUDGET, options).candidates if c.grid == Grid(1, 1) and c.stream.dir == "R"
    ]
    assert [c.stream.t for c in rows if c.failure is None] == pieces
    wrong = [(c.failure, c.detail) for c in rows if c.failure]
    assert wrong == [(Reason.IllegalStreaming, f"t {t} > {most}") for t in (1, 2, 4, 8, 16) if most and t > most]
    other = legalize(graphs.unary(16, 5), "op", BUDGET, LegalizerOptions(max_matmul_t=1)).candidates
    assert {c.stream.t for c in other if c.failure is None} == {1, 2, 4, 5, 8, 16}


@pytest.mark.parametrize(
    ("rows", "u_rt", "unique", "columns", "stream", "detail"),
    [
        (2, 1, 2, 4, StreamFactor(), ""),
        (2**14, 2, 2, 4, StreamFactor(), "2 tiles, 16384 blocks of 2 rows"),
        (2**14 - 1, 2, 2, 4, StreamFactor(), ""),
        (2**14, 1, 2, 4, StreamFactor(), ""),
        (2, 1, 2**14, 4, StreamFactor(), ""),
        (2, 2, 2**14, 4, StreamFactor(), "16384 tiles, 2 blocks of 2 rows"),
        (2, 1, 2, 4, StreamFactor("R", 3, 1), "no inner block keeps the order of 4 rows"),
        (2, 1, 2, 4, StreamFactor("C", 1, 3), ""),
    ],
)
def test_what_a_sparse_product_can_encode(
    rows: int, u_rt: int, unique: int, columns: int, stream: StreamFactor, detail: str
) -> None:
    """An index of 16 bits holds a tile's identity or its block's row, its row in the block and its inner column."""
    node = graphs.one_tap_convolution().node("gather")
    pattern = SparsePattern(4, columns, tuple((r, r, unique - 1) for r in range(4)))
    node = replace(node, op=replace(node.spec, sparse=pattern))
    got = illegal_encoding(node, Grid(1, 1), stream, BlockShape(1, rows, 1, UBlock(u_rt, 1)))
    long = f"{detail} and inner blocks of 1 exceed an index of 16 bits" if "tiles" in detail else detail
    assert got == (Illegal(Reason.IllegalSparseMatmul, long) if detail else None)


def test_the_least_inner_block_that_keeps_the_order_has_to_be_encoded() -> None:
    """The first piece reads the second column, the second one the first: only blocks of two columns go forward."""
    node = graphs.one_tap_convolution().node("gather")
    node = replace(node, op=replace(node.spec, sparse=SparsePattern(2, 4, ((0, 1, 1), (1, 0, 1)))))
    by_rows, by_columns = StreamFactor("R", 2, 1), StreamFactor("C", 1, 2)
    high, higher = (BlockShape(1, 2**14, 1, UBlock(u_rt, 1)) for u_rt in (1, 2))
    assert illegal_encoding(node, Grid(1, 1), by_rows, high) is None
    got = illegal_encoding(node, Grid(1, 1), by_rows, higher)
    assert got is not None
    assert "inner blocks of 2 exceed" in got.detail
    assert illegal_encoding(node, Grid(2, 1), by_columns, high) is None
    got = illegal_encoding(node, Grid(2, 1), by_rows, high)
    assert got is not None
    assert got.detail == "no inner block keeps the order of 2 rows"


def test_an_op_without_a_legal_model_is_one_line() -> None:
    tiny = replace(BUDGET, l1_usable=2 * TILE)
    with pytest.raises(CompilerInputError) as caught:
        legalize_graph(graphs.unary(2, 2, "gelu"), tiny)
    assert str(caught.value) == (
        "op: expected a legal op model on grayskull for gelu of 1x2x2 tiles, got none: "
        "Failed to allocate input buffers (8)"
    )


def test_which_reasons_smaller_micro_blocks_may_cure() -> None:
    assert [reason for reason in Reason if reason.is_memory] == [
        Reason.InputBufferAllocationFailure,
        Reason.L1UsageOverMaxLimit,
    ]


def test_equal_ops_in_equal_surroundings_share_their_models() -> None:
    graph = graphs.chain(5)
    legal = legalize_graph(graph, BUDGET)
    assert legal["e1"].candidates is legal["e2"].candidates
    assert legal["e1"].candidates is not legal["e3"].candidates, "its user writes an output"
    assert legal["e1"].node.name == "e1"
    fixed = legalize_graph(graph, BUDGET, LegalizerOptions(overrides={"e2": OpOverride(Grid(1, 1))}))
    assert {model.grid for model in fixed["e2"].models} == {Grid(1, 1)} != {model.grid for model in fixed["e1"].models}
    assert all(isinstance(model, OpModel) for model in legal["e1"].models)
