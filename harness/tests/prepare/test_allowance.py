"""What a model may take to be prepared, and how the end of its child is told."""

from __future__ import annotations

import signal
import time

from opscope.base.children.ending import Cause, Ending
from opscope.base.tests.each import each
from opscope.harness.prepare.allowance import Allowance


@each(
    ("ending", "line", "said"),
    [
        (Ending(Cause.SIGNAL, "", signal.SIGSEGV), "x" * 201, f"signal SIGSEGV at split: {'x' * 200}"),
        (Ending(Cause.EXIT, "", 3), "", "exit 3 at split: no output"),
        (Ending(Cause.MEMORY, "more than 2 GB"), "Killed", "memory at split: more than 2 GB; try --prepare-memory"),
        (
            Ending(Cause.TIMEOUT, ""),
            "working",
            "timeout at split: more than 90 s for all steps of the model; try --prepare-timeout",
        ),
    ],
)
def test_how_a_child_ended_at_a_step(ending: Ending, line: str, said: str) -> None:
    assert Allowance(90).reason(ending, "split", line) == said


def test_the_step_is_the_last_that_began() -> None:
    allowance = Allowance(90)
    assert allowance.step == "export"
    for event in ({"event": "stage", "stage": "golden"}, {"event": "damage", "line": "?"}, {"line": "?"}):
        allowance.note(event)
        assert allowance.step == "golden"


def test_what_is_left_is_of_the_model_or_of_the_run() -> None:
    assert 899 < Allowance().left() <= 900
    assert not Allowance(900).budget_is_spent
    assert 9 < Allowance(900, until=time.time() + 10).left() <= 10
    assert not Allowance(900, until=time.time() + 10).budget_is_spent
    late = Allowance(900, until=time.time() - 1)
    assert (late.left(), late.budget_is_spent) == (0, True)
    own = Allowance(0, until=time.time() + 10)
    assert (own.left(), own.budget_is_spent) == (0, False)
