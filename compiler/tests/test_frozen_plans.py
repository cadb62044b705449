"""Plans of small graphs stay as they were looked at: a change of policy, limit or netlist has to be meant."""

from __future__ import annotations

import pytest

from opscope.compiler.tests.frozen_plans import CASES, lines, sections

SLOW = [case for case in CASES if case[1] == "e150"][3:]
# quick: [..., n150, NLP] of the same graph


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=", ".join(case), marks=[pytest.mark.slow] * (case in SLOW)) for case in CASES]
)
def test_the_plan_is_the_frozen_one(case: tuple[str, str, str]) -> None:
    """Where it is not, and the change is right: `python -m opscope.compiler.tests.frozen_plans --update`."""
    assert list(lines(*case)) == sections()[", ".join(case)]
