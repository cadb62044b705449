"""Planned graphs on the simulator: what the plan places is what the graph computes."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target import binary
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import MODELS, model, pcc, run

POLICIES = ("MaximizeTMinimizeGrid", "MinimizeGrid", "Random", "NLP", "Ribbon")


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_computes_what_xla_does(name: str) -> None:
    case = model(name)
    planned = plan(case.graph, budget_of("n150"))
    (out,) = run(to_binary(planned, load_board("n150")), case.queues, placed=False)
    assert out.size == case.golden[0].size
    assert pcc(out, case.golden[0]) > 0.999


@pytest.mark.crossed
@pytest.mark.parametrize("board", ["e150", "n150"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODELS)
def test_a_placed_program_equals_the_same_graph_unplaced_bit_for_bit(name: str, policy: str, board: str) -> None:
    case = model(name)
    program = to_binary(plan(case.graph, budget_of(board), policy), load_board(board))
    (alone,) = run(program, case.queues, placed=False)
    (placed,) = run(program, case.queues)
    (by_core,) = run(program, case.queues, per_core=True)
    np.testing.assert_array_equal(placed, alone)
    np.testing.assert_array_equal(by_core, alone)


def test_a_plan_survives_the_file() -> None:
    case = model("attention")
    program = to_binary(plan(case.graph, budget_of("e150"), "Random"), load_board("e150"))
    assert binary.read(binary.write(program.binary)) == program.binary
    assert {op.name for op in program.binary.plan.ops} == {node.name for node in case.graph.ops}
