"""Plans of small graphs stay as they were looked at: a change of policy, limit or netlist has to be meant."""

from __future__ import annotations

import pytest

from opscope.compiler.tests.frozen_plans import CASES, lines, sections


@pytest.mark.crossed
@pytest.mark.parametrize(("graph", "board", "policy"), CASES, ids=map(", ".join, CASES))
def test_the_plan_is_the_frozen_one(graph: str, board: str, policy: str) -> None:
    """Where it is not, and the change is right: `python -m opscope.compiler.tests.frozen_plans --update`."""
    assert list(lines(graph, board, policy)) == sections()[f"{graph}, {board}, {policy}"]
