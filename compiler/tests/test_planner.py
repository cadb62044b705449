"""Plans of whole graphs: every op once, every limit kept, costs that add up and do not explode."""

from __future__ import annotations

import time

import pytest

from opscope.compiler.buda.balancer.constraints import End, edge_failure
from opscope.compiler.buda.balancer.policies import POLICIES
from opscope.compiler.buda.balancer.tests import graphs
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.graph import NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder, Operand
from opscope.compiler.buda.placer.epochs import PlacerOptions
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.buda.plan_report import plan_lines
from opscope.compiler.buda.planner import budget_of, plan


def check(buda_plan: BudaPlan) -> None:
    """What holds for every plan."""
    graph, budget = buda_plan.graph, buda_plan.budget
    placed = [p.op.name for epoch in buda_plan.epochs for p in epoch.placements]
    assert placed == [node.name for node in graph.ops]
    for name, choice in buda_plan.choices.items():
        model = choice.model
        assert any(model == legal.holding(model.output.factor) for legal in buda_plan.legal[name].models)
        assert model.l1_bytes <= budget.l1_usable
        assert model.block.t * model.block.tiles * model.grid.volume == graph.node(name).shape.tiles
        assert choice.why
    for edge in graph.edges:
        if edge.producer in buda_plan.choices and edge.consumer in buda_plan.choices and edge not in buda_plan.cuts:
            made = buda_plan.choices[edge.producer].model.stream
            taken = End.of(buda_plan.choices[edge.consumer].model, edge.operand)
            assert edge_failure(graph, edge, made, taken) is None
    for epoch in buda_plan.epochs:
        cores = [core for p in epoch.placements for core in p.cores()]
        assert len(set(cores)) == len(cores) == epoch.cores <= budget.grid.volume
        assert epoch.cycles == max(buda_plan.choices[p.op.name].model.cycles for p in epoch.placements)


@pytest.mark.crossed
@pytest.mark.filterwarnings("ignore:policy CNN:DeprecationWarning")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "arch",
    ["wormhole_b0", pytest.param("grayskull", marks=pytest.mark.slow)],  # quick: test_planned_run, on a board of it
)
@pytest.mark.parametrize(
    "graph",
    [
        graphs.chain(30),
        graphs.fork(),
        # quick: the frozen plans of gathers, test_frozen_plans.py
        pytest.param(graphs.seed_convolution(), marks=pytest.mark.slow),
    ],
    ids=lambda g: g.name,
)
def test_every_policy_makes_a_plan_that_holds(graph, arch: str, policy: str) -> None:
    check(plan(graph, budget_of(arch), policy))


def test_only_what_a_later_epoch_reads_goes_to_dram() -> None:
    graph = graphs.chain(4)
    together = plan(graph, budget_of("grayskull"))
    assert len(together.epochs) == 1
    assert together.crossing_bytes() == together.switch_cycles() == (0,)
    apart = plan(graph, budget_of("grayskull"), placer=PlacerOptions(epoch_breaks=("e2",)))
    assert apart.crossing_bytes() == (48 * 2080, 0)
    assert apart.switch_cycles()[0] == int(2 * 48 * 2080 / (8 * 10.5 * 2**30 / 1e9))


def test_programs_and_routes_fill_what_tt_buda_reserves_for_them() -> None:
    """56 KiB and 65,408 bytes for each core in use, at 10.5 GiB per second and channel."""
    planned = plan(graphs.chain(4), budget_of("grayskull"), placer=PlacerOptions(epoch_breaks=("e2",)))
    cores = [epoch.cores for epoch in planned.epochs]
    assert planned.load_bytes() == tuple(count * 122752 for count in cores)
    assert planned.load_cycles() == tuple(int(count * 122752 / (8 * 10.5 * 2**30 / 1e9)) for count in cores)
    assert planned.cycles == sum(epoch.cycles for epoch in planned.epochs)


def test_a_result_crosses_once_however_many_epochs_read_it() -> None:
    """The product is read in the next epoch, and the exponential in both; what an output takes crosses to none."""
    planned = plan(graphs.fork(), budget_of("n150"), placer=PlacerOptions(epoch_breaks=("e", "sum", "prod")))
    assert planned.crossing_bytes() == (96 * 2080, 96 * 2080, 96 * 2080, 0)
    assert planned.switch_cycles() == tuple(int(2 * size / (6 * 20.4)) for size in planned.crossing_bytes())


def test_the_pass_of_an_epoch_is_shown_where_there_are_several() -> None:
    builder = GraphBuilder("step")
    builder.source("x", NodeKind.INPUT, TensorShape(1, 1, 2, 2))
    builder.op("there", OpSpec("exp"), [Operand("x")])
    builder.output("y", builder.op("back", OpSpec("exp", epoch_type="backward"), [Operand("there")]))
    planned = plan(builder.graph(), budget_of("n150"))
    epochs = [line.partition(":")[0] for line in plan_lines(planned) if line.startswith("epoch")]
    assert epochs == ["epoch 0 chip 0 forward", "epoch 1 chip 0 backward"]
    inference = plan_lines(plan(graphs.chain(2), budget_of("n150")))
    assert [line.partition(":")[0] for line in inference if line.startswith("epoch")] == ["epoch 0 chip 0"]


def test_harvested_rows_are_not_used() -> None:
    buda_plan = plan(graphs.matmul(64, 4, 64), budget_of("grayskull", 2050), "Ribbon")
    assert buda_plan.budget.grid.r == 8
    check(buda_plan)


def test_planning_grows_no_faster_than_the_graph() -> None:
    """The time per op of a long chain is at most three times that of a chain a sixth as long (noise allowed for)."""

    def seconds_per_op(length: int) -> float:
        graph = graphs.chain(length)
        started = time.process_time()
        plan(graph, budget_of("grayskull"), "NLP")
        return (time.process_time() - started) / length

    # The least of three tries of the short one is what other work on the machine has added least to.
    assert any(seconds_per_op(600) < 3 * seconds_per_op(100) for _ in range(3))


@pytest.mark.slow
@pytest.mark.export
@pytest.mark.filterwarnings("ignore:policy CNN:DeprecationWarning")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("arch", ["grayskull", "wormhole_b0"])
@pytest.mark.parametrize("model", ["resnet50", "bert_base"])
def test_models_are_planned_within_a_minute(model: str, arch: str, policy: str) -> None:
    from ci.benchmarks.bench_planner import graph_of

    graph = graph_of(model)
    config = Configuration()
    config.set_configuration_options(balancer_policy=policy)
    started = time.process_time()
    buda_plan = config.plan(graph, arch)
    assert time.process_time() - started < 60
    check(buda_plan)
    assert any(node.spec.fused is not None for node in buda_plan.graph.ops)
