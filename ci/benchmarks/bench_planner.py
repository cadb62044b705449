"""How long planning takes, and what comes out: layers up to 5,000 ops, then two models on two chips.

`python -m pytest ci/benchmarks/bench_planner.py -k chain` times chains of layers.
`python -m ci.benchmarks.bench_planner [MODEL ...] [--arch A ...]` prints a line per model, chip and policy
(default: resnet50 and bert_base on grayskull and wormhole_b0).
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest

from ci.lines import print_lines
from opscope.compiler.api import stablehlo_to_ttir
from opscope.compiler.buda.balancer.policies import POLICIES
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder
from opscope.compiler.pipelines.buda import lower
from opscope.compiler.target.system_desc import load_board


def layers(count: int) -> BudaGraph:
    """A graph of `count` layers, each a product, an addition and a gelu, which are fused."""
    builder = GraphBuilder("layers")
    value = builder.source("x", NodeKind.INPUT, TensorShape.of((128, 1024)))
    bias = builder.source("b", NodeKind.PARAMETER, TensorShape.of((128, 1024)))
    for i in range(count):
        weights = builder.source(f"w{i}", NodeKind.PARAMETER, TensorShape.of((1024, 1024)))
        product = builder.op(f"mm{i}", OpSpec("matmul"), [value, weights])
        value = builder.op(f"gelu{i}", OpSpec("gelu"), [builder.op(f"add{i}", OpSpec("add"), [product, bias])])
    builder.output("y", value)
    return builder.graph()


@pytest.mark.parametrize("policy", ["NLP", "Ribbon"])
@pytest.mark.parametrize("ops", [500, 1_000, 2_500, 5_000])
def test_plan_chain(benchmark: Any, ops: int, policy: str) -> None:
    graph, config = layers(ops // 3), Configuration()
    config.set_configuration_options(balancer_policy=policy)
    plan = benchmark.pedantic(config.plan, (graph, "grayskull"), rounds=1)
    assert sum(len(epoch.placements) for epoch in plan.epochs) == 2 * (ops // 3)


@cache
def graph_of(model: str) -> BudaGraph:
    """The graph of a registered model."""
    from opscope.harness.prepare.export import export_model
    from opscope.models import registry

    return lower(stablehlo_to_ttir(export_model(registry.get(model)).bytecode), model)


def row(model: str, arch: str, policy: str) -> tuple[object, ...]:
    """One line of the table."""
    graph = graph_of(model)
    started, config = time.process_time(), Configuration()
    config.set_configuration_options(balancer_policy=policy)
    plan = config.plan(graph, arch)
    seconds = time.process_time() - started
    cores = sum(epoch.cores for epoch in plan.epochs) / len(plan.epochs) / plan.budget.grid.volume
    cycles, switches = plan.cycles, sum(plan.switch_cycles())
    rate = load_board(arch).clock_ghz * 1e9 / (cycles + switches)
    return (
        *(plan.graph.name, arch, plan.policy, len(plan.epochs), f"{cores:.0%}"),
        *(cycles, switches, f"{rate:.0f}", f"{seconds:.1f}"),
    )


if __name__ == "__main__":
    heads = "model | arch | policy | epochs | cores in use | cycles | switch cycles | inputs/s | planning s"
    print_lines(__doc__, heads, row, ("resnet50", "bert_base"), arch=("grayskull", "wormhole_b0"), policy=[*POLICIES])
