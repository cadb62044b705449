"""Each policy does what it says, over everything that it could have chosen."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.compiler.buda.balancer.legalizer import legalize_graph
from opscope.compiler.buda.balancer.options import LegalizerOptions
from opscope.compiler.buda.balancer.policies import POLICIES, PolicyOptions, policy
from opscope.compiler.buda.balancer.policies.buckets import Pick, pick
from opscope.compiler.buda.balancer.policies.nlp import least_prologue_volumes, parameter_of, target_cycles, target_rows
from opscope.compiler.buda.balancer.policies.ribbon import better, quality
from opscope.compiler.buda.balancer.shapes import Grid
from opscope.compiler.buda.balancer.solver import Solver
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.errors import CompilerInputError

BUDGET = budget_of("grayskull")


PAIR = graphs.product_of_products()


def single(name: str, **options: int):
    return plan(graphs.matmul(16, 32, 32), BUDGET, name, policy_options=PolicyOptions(**options))


def test_names_are_those_of_tt_buda() -> None:
    assert list(POLICIES) == ["MaximizeTMinimizeGrid", "MinimizeGrid", "Random", "NLP", "CNN", "Ribbon"]
    assert policy("default").name == "NLP"
    assert policy("minimizegrid").name == "MinimizeGrid"
    made: Any = [policy("Random", PolicyOptions(3, 4)), policy("Random")]
    assert [each.options for each in made] == [PolicyOptions(3, 4), PolicyOptions(seed=0, target_cycles=0)]
    for name, near in (("Robin", "Ribbon"), ("randbon", "Random, Ribbon"), ("0", ", ".join(POLICIES))):
        message = f"policy: expected one of {', '.join(POLICIES)}, got {name!r}; try {near}"
        with pytest.raises(CompilerInputError, match=f"^{message}$"):
            policy(name)


def test_minimize_grid_takes_the_smallest() -> None:
    planned = single("MinimizeGrid")
    best = min(m.grid.perimeter for m in planned.legal["mm"].models)
    assert planned.choices["mm"].model.grid.perimeter == best


def test_maximize_t_takes_the_largest_t() -> None:
    planned = single("MaximizeTMinimizeGrid")
    models = planned.legal["mm"].models
    most = max(m.block.t for m in models)
    assert planned.choices["mm"].model.block.t == most
    assert planned.choices["mm"].model.grid.perimeter == min(m.grid.perimeter for m in models if m.block.t == most)


def test_random_repeats_with_its_seed_and_only_then() -> None:
    draws = {seed: single("Random", seed=seed).choices["mm"].model for seed in range(5)}
    assert single("Random", seed=3).choices["mm"].model == draws[3]
    assert len(set(draws.values())) > 2


@pytest.mark.parametrize("target", [60_000, 100_000, 400_000])
def test_nlp_takes_the_slowest_within_its_target(target: int) -> None:
    planned = single("NLP", target_cycles=target)
    chosen = planned.choices["mm"].model
    within = [m for m in planned.legal["mm"].models if m.cycles <= target]
    of_two_rows = [m for m in within if m.grid.r == 2]
    assert chosen.cycles == max(m.cycles for m in of_two_rows or within)
    assert str(target) in planned.choices["mm"].why


def candidate(rows: int, columns: int, cycles: int, kind: str = "exp", resident: bool = False, streamed: bool = False):
    parameters = (None, object() if resident else None)
    dram = (None, object() if streamed else None)
    return SimpleNamespace(
        grid=Grid(rows, columns),
        cycles=cycles,
        spec=SimpleNamespace(type=kind, is_matmul=kind == "matmul"),
        parameters=parameters,
        dram=dram,
    )


@pytest.mark.parametrize(
    ("model", "bucket"),
    [
        (candidate(2, 3, 100), "best"),  # the target itself is not too slow
        (candidate(2, 3, 101), "too_slow"),
        (candidate(3, 3, 100), "bad_rows"),
        (candidate(3, 2, 100), "best"),  # on its side
        (candidate(2, 2, 100), "best"),
        (candidate(3, 4, 100), "bad_rows"),
        (candidate(1, 2, 100), "bad_rows"),
        (candidate(3, 2, 100, "matmul"), "bad_rows"),  # no matmul is turned
        (candidate(2, 3, 100, "matmul", resident=True), "best"),  # as many cores as it needs
        (candidate(2, 2, 100, "matmul", resident=True), "failed_prologue"),
        (candidate(2, 3, 100, "matmul", streamed=True), "failed_prologue"),
        (candidate(3, 3, 100, "matmul", streamed=True), "bad_rows_failed_prologue"),
        (candidate(2, 3, 101, "matmul", streamed=True), "too_slow_failed_prologue"),
        (candidate(2, 3, 100, "matmul"), "best"),  # no parameter
        (candidate(2, 3, 100, "sparse_matmul", streamed=True), "best"),
    ],
)
def test_a_model_is_in_the_bucket_of_its_rows_speed_and_parameter(model: Any, bucket: str) -> None:
    assert pick((model,), target_rows=2, target_cycles=100, min_volume=6) == Pick(model, bucket, 1)


def test_the_slowest_of_the_best_bucket_or_the_fastest_of_those_too_slow() -> None:
    models: Any = (candidate(2, 3, 60), candidate(2, 3, 90), candidate(3, 3, 95), candidate(2, 3, 200))
    assert pick(models, 2, 100, 0) == Pick(models[1], "best", 2)
    assert pick(models, 2, 50, 0) == Pick(models[0], "too_slow", 4)
    assert pick(models, 2, None, 0) == Pick(models[3], "best", 3)


def test_nlp_takes_the_fastest_where_all_are_too_slow() -> None:
    planned = single("NLP", target_cycles=1)
    assert planned.choices["mm"].model.cycles == min(m.cycles for m in planned.legal["mm"].models)
    assert "slower than the target" in planned.choices["mm"].why


def test_nlp_leaves_out_matmuls_that_could_be_much_faster() -> None:
    """Beside a large product a tiny one does not lower the target."""
    solver = Solver(PAIR, {name: legal.models for name, legal in legalize_graph(PAIR, BUDGET).items()})
    small, large = (min(m.cycles for m in solver.at(n) if m.grid == Grid(1, 1)) for n in ("small", "large"))
    assert small < 10_000 < large
    assert target_cycles(solver, Counter()) == 125_000


@pytest.mark.parametrize(("tiles", "rows"), [(1, 1), (6, 1), (11, 1), (12, 2), (48, 8)])
def test_nlp_wants_a_row_of_cores_for_six_rows_of_tiles(tiles: int, rows: int) -> None:
    assert target_rows(graphs.unary(tiles, 2).node("op")) == rows


def test_the_right_operand_is_the_parameter() -> None:
    for graph, producer in ((graphs.chain(1), ""), (graphs.matmul(1, 1, 1), "w"), (graphs.sum_of(3, 1, 1), "x1")):
        assert parameter_of(graph, graph.ops[0]) == producer


def timed(rows: int, columns: int, cycles: int, rt: int = 4, ct: int = 3) -> Any:
    """A model on a grid, with a share of rt x ct tiles for each core."""
    return SimpleNamespace(grid=Grid(rows, columns), cycles=cycles, block=SimpleNamespace(rt=rt, ct=ct))


def target(graph: BudaGraph, models: dict[str, tuple[Any, ...]], **volumes: int) -> int:
    solver: Any = SimpleNamespace(graph=graph, at=lambda name: models[name])
    return target_cycles(solver, Counter(volumes))


@pytest.mark.parametrize(("volume", "cycles"), [(0, 120_000), (2, 120_000), (4, 72_000), (16, 54_000), (17, 54_000)])
def test_nlps_target_is_the_smallest_grid_of_the_wanted_rows_and_a_fifth_more(volume: int, cycles: int) -> None:
    """Two rows for twelve of tiles, and cores that keep the parameter; 45,000 where all that could are much faster."""
    models = (timed(1, 1, 200_000), timed(2, 2, 60_000), timed(2, 1, 100_000), timed(4, 4, 10_000))
    assert target(graphs.matmul(12, 4, 12), {"mm": models}, w=volume) == cycles


@pytest.mark.parametrize(
    ("fastest", "cycles"), [(10_000, 45_000), (37_500, 45_000), (50_000, 60_000), (150_000, 125_000)]
)
def test_nlps_target_has_bounds(fastest: int, cycles: int) -> None:
    assert target(graphs.matmul(1, 1, 1), {"mm": (timed(1, 1, fastest, rt=1),)}) == cycles


@pytest.mark.parametrize(
    ("small", "share", "cycles"),
    [
        (67_999, (4, 3), 96_000),  # below 0.85 of what the slowest needs at best
        (68_000, (4, 3), 81_600),
        (50_000, (3, 3), 60_000),  # shares of less than 4 x 3 tiles set no bound
        (50_000, (4, 2), 60_000),
    ],
)
def test_nlp_leaves_out_what_is_much_faster_than_the_slowest(small: int, share: tuple[int, int], cycles: int) -> None:
    models = {"small": (timed(1, 1, small, rt=1),), "large": (timed(8, 1, 80_000, *share), timed(1, 1, 9_000))}
    assert target(PAIR, models) == cycles


@pytest.mark.parametrize(("k", "cores"), [(4, 1), (64, 4), (256, 16)])
def test_nlp_counts_the_cores_that_keep_a_parameter(k: int, cores: int) -> None:
    """Of k x 16 tiles of 2,080 bytes in L1s of 577,408; what stays in DRAM needs none."""
    graph = graphs.matmul(4, k, 16)
    for in_dram, expected in ((False, {"w": cores}), (True, {})):
        legal = legalize_graph(graph, BUDGET, LegalizerOptions(dram_parameters=in_dram))
        assert (
            least_prologue_volumes(Solver(graph, {name: legal_of_op.models for name, legal_of_op in legal.items()}))
            == expected
        )


def test_nlp_works_its_target_out_within_bounds() -> None:
    for m, k, n in ((1, 1, 1), (16, 32, 32), (128, 128, 128)):
        planned = plan(graphs.matmul(m, k, n), BUDGET, "NLP")
        target = int(planned.choices["mm"].why.split("target ")[1].split()[0])
        assert 45_000 <= target <= 125_000


def test_cnn_warns_that_it_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="policy CNN is deprecated"):
        planned = single("CNN")
    assert planned.choices["mm"].model.grid.r == max(m.grid.r for m in planned.legal["mm"].models)


@pytest.mark.parametrize(
    ("limit", "distance", "closeness"),
    [
        (79, 0, 0),
        (80, 0, 1),
        (99, 0, 1),
        (100, 0, 2),
        (119, 0, 2),
        (120, 0, 3),
        (199, 0, 3),
        (200, 1, 3),
        (500, 2, 3),
        (1000, 3, 3),
        (2000, 4, 3),
        (51, 0, 0),
        (50, 1, 0),
        (5, 4, 0),
    ],
)
def test_ribbon_wants_models_near_its_target(limit: int, distance: int, closeness: int) -> None:
    """Of target 100: by how many of 2, 5, 10 and 20 it is off, and how many of 80, 100 and 120 it reaches."""
    model: Any = SimpleNamespace(
        spec=SimpleNamespace(is_matmul=False), u_kt=1, block=SimpleNamespace(t=1, tiles=7), cycles=40
    )
    last = (limit,) if closeness == 3 else (-7, -40 / limit)
    assert quality(model, limit, 100) == (distance, False, False, closeness, *last)


def test_ribbon_wants_large_steps_and_blocks() -> None:
    def small(u_kt: int, t: int, tiles: int, is_matmul: bool = True) -> tuple[float, ...]:
        model: Any = SimpleNamespace(
            spec=SimpleNamespace(is_matmul=is_matmul), u_kt=u_kt, block=SimpleNamespace(t=t, tiles=tiles), cycles=40
        )
        return quality(model, 100, 100)[1:3]

    assert [small(3, 1, 7), small(4, 1, 7), small(3, 1, 7, is_matmul=False)] == [(1, 0), (0, 0), (0, 0)]
    assert [small(4, 2, 7), small(4, 2, 8), small(4, 1, 7)] == [(0, 1), (0, 0), (0, 0)]


def test_ribbon_takes_few_columns_where_both_are_fast() -> None:
    def model(rows: int, columns: int) -> Any:
        return SimpleNamespace(
            grid=SimpleNamespace(r=rows, c=columns),
            spec=SimpleNamespace(is_matmul=False),
            u_kt=1,
            block=SimpleNamespace(t=1, tiles=8),
            cycles=40,
        )

    assert better((model(4, 8), 90), (model(5, 1), 90), 4, 100)  # the height of the band
    assert better((model(3, 8), 90), (model(5, 1), 90), 4, 100)  # as far off, with fewer rows
    assert better((model(4, 1), 60), (model(4, 2), 100), 4, 100)
    assert not better((model(4, 2), 100), (model(4, 1), 60), 4, 100)
    assert not better((model(4, 1), 300), (model(4, 2), 101), 4, 100)  # neither is fast: nearer to the target
    assert better((model(4, 2), 101), (model(4, 1), 300), 4, 100)
    assert not better((model(4, 2), 90), (model(4, 2), 90), 4, 100)  # the first of equal ones stays


def test_ribbon_gives_all_ops_of_an_epoch_one_height() -> None:
    planned = plan(graphs.chain(8, 20, 8), BUDGET, "Ribbon")
    for epoch in planned.epochs:
        assert len({planned.choices[p.op.name].model.grid.r for p in epoch.placements}) == 1


@pytest.mark.slow
def test_ribbon_is_at_least_as_fast_as_the_policies_that_do_not_look_at_cycles() -> None:
    graph = graphs.seed_convolution()
    cycles = {name: plan(graph, BUDGET, name).cycles for name in ("Ribbon", "MinimizeGrid", "MaximizeTMinimizeGrid")}
    assert cycles["Ribbon"] == min(cycles.values())
