"""Ribbon's epochs by hand: what they count as work, which model an op takes, and where an epoch ends; CNN beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from opscope.compiler.buda.balancer.policies import cnn, ribbon
from opscope.compiler.buda.balancer.policies.base import PolicyOptions
from opscope.compiler.buda.balancer.shapes import BlockShape, BufferModel, Grid, UBlock
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.graph import BudaGraph
from opscope.compiler.buda.planner import budget_of

BUDGET = budget_of("grayskull")
STEPS = (BufferModel.whole(BlockShape(1, 5, 1, UBlock(4, 1)), 2, "Float16_b"),) * 2


def model(rows: int, columns: int, limit: int = 1, cycles: int = 100, **more: Any) -> Any:
    """A model whose bottleneck takes `limit` cycles."""
    return SimpleNamespace(
        grid=Grid(rows, columns),
        limit=limit,
        cycles=cycles,
        block=BlockShape(1, 2, 3, UBlock(1, 1)),
        inputs=STEPS,
        spec=SimpleNamespace(is_matmul=False),
        u_kt=1,
        **more,
    )


class Solver:
    """Holds models by op; `set` narrows an op to one, `rewind` forgets that."""

    def __init__(self, graph: BudaGraph, **models: Sequence[Any]) -> None:
        self.graph = graph
        self.models = {name: tuple(models_of_op) for name, models_of_op in models.items()}
        self.taken: dict[str, Any] = {}
        self.at, self.set = self.models.__getitem__, self.taken.__setitem__

    def domain(self, name: str) -> int:
        return (1 << len(self.models[name])) - 1

    def mark(self) -> dict[str, Any]:
        return dict(self.taken)

    def rewind(self, mark: dict[str, Any]) -> None:
        self.taken.clear()
        self.taken.update(mark)


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ribbon, "limiter_cycles", lambda graph, name, model, budget: model.limit)


def epoch(solver: Any, height: int = 1) -> ribbon.Trial:
    return ribbon.Ribbon(PolicyOptions())._epoch(solver, BUDGET, solver.graph.ops, height)


def test_the_work_of_an_epoch_is_weighted_by_the_kinds_of_its_ops() -> None:
    """Cycles times cores: a product's at full rate, an eighth of others', a 128th of a sparse product's."""
    exp, gather, dense = graphs.chain(1), graphs.one_tap_convolution(), graphs.matmul(1, 20, 6, math_fidelity="HiFi2")
    assert epoch(Solver(exp, e0=[model(2, 3)])).score == 100 * 6 / 8
    assert epoch(Solver(exp, e0=[model(2, 3, limit=50)])).score == 100 * 6 / 8 / 50
    assert epoch(Solver(dense, mm=[model(2, 3, limit=10)])).score == 6 * 5 * 4 * 2 * 32 * 6 / 10
    both = epoch(Solver(gather, gather=[model(2, 2, limit=9)], mm=[model(1, 1, limit=7)]))
    assert both.score == (100 * 4 / 128 + 6 * 5 * 4 * 3 * 32) / 9
    assert both.score == epoch(Solver(gather, gather=[model(2, 2, limit=7)], mm=[model(1, 1, limit=9)])).score


def test_an_epoch_ends_where_an_op_does_not_fit_or_is_of_another_pass() -> None:
    graph = graphs.chain(3)
    large, small = model(10, 8), model(10, 4)
    first = epoch(Solver(graph, e0=[large], e1=[small], e2=[small]), 3)
    assert (first.height, first.models) == (3, (("e0", large), ("e1", small)))
    back = tuple(
        replace(node, op=replace(node.spec, epoch_type="backward")) if node.name == "e1" else node
        for node in graph.nodes
    )
    turned = BudaGraph("turned", back, graph.edges)
    assert epoch(Solver(turned, e0=[small], e1=[small], e2=[small])).models == (("e0", small),)


def test_ribbon_takes_the_height_with_most_work_per_cycle_epoch_by_epoch() -> None:
    """Two rows are as fast as three and come first; an op without a model of that height takes the nearest."""
    graph = graphs.chain(2)
    two, three = model(2, 12, limit=10), model(3, 12, limit=15)
    wide = model(9, 12, limit=5, cycles=400)
    solver: Any = Solver(graph, e0=[two, three], e1=[wide])
    got = ribbon.Ribbon(PolicyOptions()).choose(solver, BUDGET)
    assert {name: choice.model for name, choice in got.items()} == {"e0": two, "e1": wide} == solver.taken
    why = "useful cycles per cycle of the epoch's slowest op"
    assert [choice.why for choice in got.values()] == [
        f"ribbon of 1 rows, 30.0 {why}",
        f"ribbon of 1 rows, 1080.0 {why}",
    ]
    tall = model(10, 12, limit=10)
    solver = Solver(graphs.chain(1), e0=[two, tall])
    (choice,) = ribbon.Ribbon(PolicyOptions()).choose(solver, BUDGET).values()
    assert (choice.model, choice.why) == (tall, f"ribbon of 7 rows, 150.0 {why}")
    solver = Solver(graphs.chain(1), e0=[two, three, model(10, 12, limit=1000)])
    (choice,) = ribbon.Ribbon(PolicyOptions()).choose(solver, BUDGET).values()
    assert (choice.model, choice.why) == (two, f"ribbon of 1 rows, 30.0 {why}")


@pytest.mark.parametrize(
    ("target", "limits", "taken"),
    [
        (0, (95_000, 95_001), 0),  # both columns are few enough: only one is within 95,000
        (0, (95_000, 95_000), 1),
        (300, (301, 300), 0),
        (300, (300, 300), 1),
        (300, (300, 301), 0),
    ],
)
def test_few_columns_within_the_target(target: int, limits: tuple[int, int], taken: int) -> None:
    """Of two models, the second has fewer columns and is as near to the target, but smaller."""
    models = [model(1, 4, limits[0]), model(1, 2, limits[1])]
    models[1].block = BlockShape(1, 1, 1, UBlock(1, 1))
    solver: Any = Solver(graphs.chain(1), e0=models)
    policy = ribbon.Ribbon(PolicyOptions(target_cycles=target))
    assert policy.pick(solver, BUDGET, solver.graph.ops[0], 1) == (models[taken], limits[taken])


def test_a_sparse_product_has_at_most_forty_cores_with_cnn() -> None:
    """If it can; the slowest of the tallest grids is taken."""
    graph = graphs.one_tap_convolution()

    def resident(*grids: tuple[int, int]) -> list[Any]:
        fakes = [
            model(*grid, cycles=100 * number, parameters=(None, None), dram=()) for number, grid in enumerate(grids)
        ]
        for each in fakes:
            each.spec = SimpleNamespace(type="sparse_matmul", is_matmul=True)
        return fakes

    with pytest.warns(DeprecationWarning, match="policy CNN is deprecated, as in TT-Buda; try Ribbon") as warned:
        policy = cnn.Cnn(PolicyOptions())
    assert [each.filename for each in warned] == [__file__]
    dense = resident((2, 2), (8, 2), (8, 1))
    words = {"rows": "with the rows of cores that are wanted", "room": "room for the parameter in L1"}
    for grids, taken, why in (
        ([(5, 8), (41, 1)], 0, "the only model {rows} and {room} (5 wanted)"),
        (
            [(5, 8), (2, 20), (3, 20), (5, 4)],
            3,
            "slowest of the 2 models {rows} and {room} (5 wanted)",
        ),
        ([(41, 1), (2, 40)], 0, "the only model {rows} and {room} (41 wanted)"),
    ):
        models = resident(*grids)
        solver: Any = Solver(graph, gather=models, mm=dense)
        got = policy.choose(solver, BUDGET)
        assert {name: choice.model for name, choice in got.items()} == {"gather": models[taken], "mm": dense[2]}
        assert got["gather"].why == why.format(**words)
