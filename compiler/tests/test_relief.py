"""Ops that no candidate fits get a model: their data waits in DRAM, or nops stack their operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from opscope.compiler.buda import relief
from opscope.compiler.buda.balancer.legalizer import NoLegalModel, legalize_graph
from opscope.compiler.buda.plan_to_binary import to_binary
from opscope.compiler.buda.planner import budget_of, plan
from opscope.compiler.target.system_desc import load_board
from opscope.compiler.tests.planned import lowered_function, run


def stacked(layers: int) -> Callable[..., Any]:
    """Matrices below each other, whose product with others is matrices again."""

    def function(x, w):
        for _ in range(layers):
            x = ((x * x).reshape(-1, 64) @ w).reshape(x.shape)
        return x

    return function


STACKED = ((8, 64, 64), (64, 64))
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = {
    "read from DRAM": (stacked(1), STACKED, 20),
    "a nop in place of DRAM": (stacked(1), STACKED, 40),
    # The columns are a prime number of tiles, so that one core of a row has them all.
    "stacked by a nop": (lambda x, b, w: (x + b).reshape(-1, 64) @ w, ((5, 64, 64), (5, 64, 64), (64, 416)), 60),
}


@pytest.mark.parametrize("name", CASES)
def test_an_op_without_a_model_gets_one_and_computes_what_xla_does(name: str) -> None:
    function, shapes, kib = CASES[name]
    case = lowered_function(function, *shapes)
    budget = replace(budget_of("n150"), l1_usable=kib << 10)
    with pytest.raises(NoLegalModel):
        legalize_graph(case.graph, budget)
    planned = plan(case.graph, budget)
    nops = [node for node in planned.graph.ops if node.name.startswith("buffer_0_")]
    assert (bool(planned.cuts), bool(nops)) == (name == "read from DRAM", "nop" in name)
    (out,) = run(to_binary(planned, load_board("n150")), case.queues)
    np.testing.assert_allclose(out.reshape(case.golden[0].shape), case.golden[0], rtol=0.05, atol=0.05)


def test_many_alike_are_relieved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    case = lowered_function(stacked(12), *STACKED)
    calls = []
    monkeypatch.setattr(relief, "legalize_graph", lambda *args: calls.append(args) or legalize_graph(*args))
    relief.relieved(case.graph, replace(budget_of("n150"), l1_usable=20 << 10))
    assert len(calls) == 2


def test_what_does_not_fit_in_any_way_is_one_line() -> None:
    case = lowered_function(lambda x: jnp.exp(x + x), (64, 64))
    with pytest.raises(NoLegalModel, match=r"add_0: expected a legal op model on wormhole_b0 .* got none: Failed"):
        plan(case.graph, replace(budget_of("n150"), l1_usable=4 << 10))
