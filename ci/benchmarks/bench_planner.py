"""How long planning takes, and what comes out: layers up to 5,000 ops, then two models on two chips.

`python -m pytest ci/benchmarks/bench_planner.py -k chain` times chains of layers.
`python -m ci.benchmarks.bench_planner [MODEL ...] [--arch A ...]` prints a line per model, chip and policy
(default: resnet50 and bert_base on grayskull and wormhole_b0).
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import pytest

from opscope.compiler.api import stablehlo_to_ttir
from opscope.compiler.buda.balancer.policies import POLICIES
from opscope.compiler.buda.configuration import Configuration
from opscope.compiler.buda.graph import BudaGraph, NodeKind, OpSpec, TensorShape
from opscope.compiler.buda.graph_builder import GraphBuilder
from opscope.compiler.buda.plan import BudaPlan
from opscope.compiler.pipelines.buda import lower
from opscope.compiler.target.system_desc import load_board

MODELS = ("resnet50", "bert_base")
ARCHS = ("grayskull", "wormhole_b0")


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


def graph_of(model: str) -> BudaGraph:
    """The graph of a registered model."""
    from opscope.harness.prepare.export import export_model
    from opscope.models import registry

    return lower(stablehlo_to_ttir(export_model(registry.get(model)).bytecode), model)


def row(plan: BudaPlan, arch: str, seconds: float) -> str:
    """One line of the table of docs/planning.md."""
    cores = sum(epoch.cores for epoch in plan.epochs) / len(plan.epochs) / plan.budget.grid.volume
    cycles, switches = plan.cycles, sum(plan.switch_cycles())
    rate = load_board(arch).clock_ghz * 1e9 / (cycles + switches)
    return (
        f"| {plan.graph.name} | {arch} | {plan.policy} | {len(plan.epochs)} | {cores:.0%} | {cycles} | {switches} "
        f"| {rate:.0f} | {seconds:.1f} |"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--arch", action="append")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    print("| model | arch | policy | epochs | cores in use | cycles | switch cycles | inputs/s | planning s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in options.models:
        graph = graph_of(model)
        for arch in options.arch or ARCHS:
            for policy in POLICIES:
                started = time.process_time()
                config = Configuration()
                config.set_configuration_options(balancer_policy=policy)
                plan = config.plan(graph, arch)
                print(row(plan, arch, time.process_time() - started), flush=True)


if __name__ == "__main__":
    main()
