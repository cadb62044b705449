"""Where the backends of one run disagree: the ops on which some pass and others fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opscope.harness.record.records import OpTest
from opscope.harness.record.stages import FAILED, Status


@dataclass(frozen=True)
class Disagreement:
    """One op on which the backends are not of one mind."""

    tests: Mapping[str, OpTest]
    """What each backend that took the op made of it, by its name."""

    @property
    def failing(self) -> tuple[str, ...]:
        """The backends on which it fails."""
        return tuple(name for name, test in self.tests.items() if test.status in FAILED)

    @property
    def alone(self) -> str:
        """The only backend that differs from all others: of two the one that fails. Empty where none stands alone."""
        passing = [name for name in self.tests if name not in self.failing]
        if len(self.failing) == 1:
            return self.failing[0]
        return passing[0] if len(passing) == 1 else ""

    @property
    def first(self) -> OpTest:
        """The record of the backend that is alone, else of the first that fails: it says which op this is."""
        return self.tests[self.alone or self.failing[0]]


def disagreements(tests: Iterable[OpTest]) -> list[Disagreement]:
    """The ops on which backends disagree, the most used first. An op that a backend did not judge is no vote of it."""
    voters: dict[str, dict[str, OpTest]] = {}
    for test in tests:
        if test.status is Status.SUCCESS or test.status in FAILED:
            voters.setdefault(test.op_id, {})[test.backend] = test
    found = [Disagreement(by_backend) for by_backend in voters.values()]
    split = [each for each in found if 0 < len(each.failing) < len(each.tests)]
    return sorted(split, key=lambda each: -each.first.uses)
