"""Where the backends of one run disagree: the ops on which some pass and others fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from opscope.harness.record.one_failure import failure_of_all
from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Stage


@dataclass(frozen=True)
class Disagreement:
    """One op on which the backends disagree."""

    tests: Mapping[str, OpTest]
    """The record of each backend that attempted the op, by the backend's name."""

    @property
    def failing(self) -> tuple[str, ...]:
        """The backends on which the op fails."""
        return tuple(name for name, test in self.tests.items() if test.status in FAILED)

    @property
    def alone(self) -> str:
        """The backend that differs from all others (with two backends, the failing one), or an empty string."""
        passing = [name for name in self.tests if name not in self.failing]
        if len(self.failing) == 1:
            return self.failing[0]
        return passing[0] if len(passing) == 1 else ""

    @property
    def first(self) -> OpTest:
        """The record that represents the op: from the backend that differs, else from the first that fails."""
        return self.tests[self.alone or self.failing[0]]


def disagreements(tests: Iterable[OpTest]) -> list[Disagreement]:
    """The ops on which backends disagree, the most used first. A backend without a verdict on an op does not count,
    nor does one that fails with every op by one text: that says nothing of the ops.

    A backend that only compiles says nothing of numbers: its pass contradicts the failure of a compiler alone.
    """
    voters: dict[str, dict[str, OpTest]] = {}
    of_backend: dict[str, list[OpTest]] = {}
    for test in tests:
        of_backend.setdefault(test.backend, []).append(test)
    working = [own for own in of_backend.values() if failure_of_all(own) is None]
    for test in chain.from_iterable(working):
        if test.right or test.status in FAILED:
            voters.setdefault(test.op_id, {})[test.backend] = test
    compared = [Disagreement(_comparable(by_backend)) for by_backend in voters.values()]
    split = [op for op in compared if 0 < len(op.failing) < len(op.tests)]
    return sorted(split, key=lambda op: -op.first.uses)


def _comparable(tests: Mapping[str, OpTest]) -> Mapping[str, OpTest]:
    """The records that speak of the same: without those that only compiled where what failed is later."""
    if any(test.status in FAILED and test.failed_stage not in (Stage.RUN, Stage.COMPARE) for test in tests.values()):
        return tests
    return {name: test for name, test in tests.items() if test.status in FAILED or test.status == "success"}
